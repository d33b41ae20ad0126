package script

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/lua"
)

// Servers that have functions load the library on first use, and then carry out a call as FCALL. Others get scripts. Which it is is found
// out per client, by the first call: whatever an answer says, nothing has been done yet.

// Mode is how a client's servers carry out calls.
type Mode struct {
	Functions bool
	Reason    error // why it is scripts
}

// String returns the mode in words.
func (m Mode) String() string {
	if m.Functions {
		return "functions"
	}
	return fmt.Sprintf("scripts: %v", m.Reason)
}

// askAgain is when a server that could not load the library for reasons that may pass, such as its memory, is asked once more.
const askAgain = 10 * time.Second

// servers is what is known of the servers of a client.
type servers struct {
	loading chan struct{} // has room for the one who loads the library
	writer  writer

	mu     sync.Mutex
	mode   Mode
	until  time.Time            // when it is to be found out again; zero for never
	seen   map[string]time.Time // when the library was last seen on a node
	loaded map[string]bool      // the nodes on which it has been seen since the last connection to them was made
}

func newServers() *servers {
	return &servers{
		loading: make(chan struct{}, 1), mode: Mode{Functions: true}, seen: map[string]time.Time{}, loaded: map[string]bool{},
	}
}

// known has the servers of each client that is in use: by a weak pointer where the client is one of go-redis's own.
var known sync.Map

// serversOf returns what is known of the servers of a client.
func serversOf(rdb redis.UniversalClient) *servers {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return serversAt(rdb)
	case *redis.ClusterClient:
		return serversAt(rdb)
	case *redis.Ring:
		return serversAt(rdb)
	}
	if rdb == nil || !reflect.TypeOf(rdb).Comparable() {
		return newServers()
	}
	s, _ := known.LoadOrStore(rdb, newServers())
	return s.(*servers)
}

func serversAt[C any](rdb *C) *servers {
	if rdb == nil {
		return newServers()
	}
	key := weak.Make(rdb)
	if s, ok := known.Load(key); ok {
		return s.(*servers)
	}
	s, found := known.LoadOrStore(key, newServers())
	if !found {
		runtime.AddCleanup(rdb, func(key weak.Pointer[C]) { known.Delete(key) }, key)
	}
	return s.(*servers)
}

// functions reports whether calls are sent as functions.
func (s *servers) functions() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mode.Functions && !s.until.IsZero() && time.Now().After(s.until) {
		s.mode = Mode{Functions: true}
	}
	return s.mode.Functions
}

// errNoFunctions is why a server gets scripts that knows no FCALL.
var errNoFunctions = errors.New("the server has no functions")

// refuse makes scripts of all further calls.
func (s *servers) refuse(reason error) {
	until := time.Now().Add(askAgain)
	if IsForbidden(reason) {
		until = time.Time{}
	}
	if unknownCommand.MatchString(reason.Error()) {
		reason = errNoFunctions
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode, s.until = Mode{Reason: reason}, until
}

func (s *servers) see(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[node], s.loaded[node] = time.Now(), true
}

func (s *servers) sees(node string, surely bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded[node] || !surely && !s.seen[node].IsZero()
}

func (s *servers) seenSince(node string, began time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[node].After(began)
}

// Mode returns how the client's servers carry out calls, as far as is known.
func (r *Runner) Mode() Mode {
	s := serversOf(r.Client)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode
}

// Dialed tells that a connection is being made to a server of the client: it may be another server than before.
func Dialed(rdb redis.UniversalClient, addr string) {
	s := serversOf(rdb)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loaded, addr)
	delete(s.loaded, "")
}

// asFunction reports whether the call is sent as a function.
func (r *Runner) asFunction(call Call) bool {
	return call.Script.function && serversOf(r.Client).functions()
}

// process sends a call as a function if the server has functions, and else as a script.
func (r *Runner) process(ctx context.Context, call Call, noRetry bool) (*Command, error) {
	for attempt := 0; r.asFunction(call); attempt++ {
		cmd, began := call.command(ctx, noRetry, call.Args), time.Now()
		err := r.deliver(ctx, call, cmd)
		switch {
		case IsUnknown(err) && attempt < 3:
			if err := r.load(ctx, call.Key(), attempt, began); err != nil {
				return cmd, err
			}
		case IsUnknown(err) || refusesFunctions(err):
			serversOf(r.Client).refuse(err)
			if call.Script.only {
				return cmd, err
			}
		case isFull(err) && !call.Script.only: // the script may do without memory, as it finds
			evaluated, failure := r.evaluate(ctx, call, noRetry)
			if RefusesScripts(failure) {
				return cmd, err
			}
			return evaluated, failure
		default:
			return cmd, err
		}
	}
	if call.Script.only {
		return call.command(ctx, noRetry, call.Args), rediserr.Error(notFound)
	}
	return r.evaluate(ctx, call, noRetry)
}

// evaluate sends a call as a script, as EVAL if the server does not have that.
func (r *Runner) evaluate(ctx context.Context, call Call, noRetry bool) (*Command, error) {
	cmd := call.command(ctx, noRetry, call.hashed())
	err := r.deliver(ctx, call, cmd)
	if isNoScript(err) {
		cmd = call.command(ctx, noRetry, call.Eval())
		err = r.deliver(ctx, call, cmd)
	}
	return cmd, err
}

// load loads the library on the server that has the key, or finds that the server has no functions. If that was done before, and the server
// still does not know a function, the slot may be on its way to another master, or a library of this name may lack it. The error is that of
// a connection, and the call that is to follow has not been sent. Callers load one after another, and what one of them has loaded since a
// call began is there for the others.
func (r *Runner) load(ctx context.Context, key string, attempt int, began time.Time) error {
	s := serversOf(r.Client)
	node, addr, err := nodeOf(ctx, r.Client, key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRun, err)
	}
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotRun, ctx.Err())
	}
	if attempt == 0 && (s.seenSince(addr, began) || !s.functions()) {
		return nil
	}
	words := []any{"function", "load", lua.Functions().Text}
	if attempt > 1 {
		words = []any{"function", "load", "replace", lua.Functions().Text}
	}
	if cluster, ok := r.Client.(*redis.ClusterClient); ok && attempt > 0 {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return node.Process(ctx, NewCommand(ctx, words...))
		})
	} else {
		err = node.Process(ctx, NewCommand(ctx, words...))
	}
	switch {
	case err == nil || isLoaded(err):
		s.see(addr)
		return nil
	case IsTransient(err):
		return err
	case IsReply(err):
		s.refuse(err)
		return nil
	default:
		return fmt.Errorf("%w: the library could not be loaded: %w", ErrNotRun, err)
	}
}

// Lost loads the library on the server of the key, which has lost it, if there is a connection at once. Else those who prepare their own
// connection do, and on a cluster: there it may be on a node of which go-redis does not know yet that it has the key.
func (r *Runner) Lost(ctx context.Context, key string) {
	s := serversOf(r.Client)
	s.mu.Lock()
	clear(s.loaded)
	s.mu.Unlock()
	if _, cluster := r.Client.(*redis.ClusterClient); cluster {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_ = r.load(ctx, key, 0, time.Now())
}

// LoadBy loads the library on the server to which process sends a command.
func LoadBy(ctx context.Context, process redis.ProcessHook) error {
	err := process(ctx, NewCommand(ctx, "function", "load", lua.Functions().Text))
	if isLoaded(err) {
		return nil
	}
	return err
}

// Prepare loads the library on the server of the key, if that has functions and has not been seen to have it. surely says that it must have
// been seen since the last connection was made, to a server that may be another one: without the functions, the other commands of a
// transaction would be carried out alone.
func (r *Runner) Prepare(ctx context.Context, key string, surely bool) {
	r.PrepareBy(ctx, key, surely, nil)
}

// PrepareBy is Prepare on a connection to the server, by which process sends a command, unless it is nil.
func (r *Runner) PrepareBy(ctx context.Context, key string, surely bool, process redis.ProcessHook) {
	s := serversOf(r.Client)
	if !s.functions() {
		return
	}
	node, addr, err := nodeOf(ctx, r.Client, key)
	if err != nil || s.sees(addr, surely) {
		return
	}
	began, alone := time.Now(), process == nil
	if alone {
		process = node.Process
	}
	switch err := process(ctx, NewCommand(ctx, "fcall", lua.Functions().Function(lua.IsLoaded), 0)); {
	case err == nil:
		s.see(addr)
	case IsUnknown(err) && alone:
		_ = r.load(ctx, key, 0, began)
	case IsUnknown(err):
		if LoadBy(ctx, process) == nil {
			s.see(addr)
		}
	case refusesFunctions(err):
		s.refuse(err)
	}
}

// nodeOf returns the client of the server that has the key, and a name for it.
func nodeOf(ctx context.Context, rdb redis.UniversalClient, key string) (node redis.UniversalClient, addr string, err error) {
	var client *redis.Client
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		client, err = rdb.MasterForKey(ctx, key)
	case *redis.Ring:
		client, err = rdb.GetShardClientForKey(key)
	default:
		return rdb, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	return client, client.Options().Addr, nil
}

// IsUnknown reports whether the server does not know a function that was called. It has done nothing.
func IsUnknown(err error) bool { return IsReply(err) && err.Error() == notFound }

const notFound = "ERR Function not found"

// isLoaded reports whether the server has refused to load a library because it has it.
func isLoaded(err error) bool { return IsReply(err) && strings.Contains(err.Error(), "already exists") }

// isFull reports whether the server has refused something because its memory is full.
func isFull(err error) bool { return err != nil && redis.HasErrorPrefix(err, "OOM ") }

// refusesFunctions reports whether the server has no functions, or not for this user.
func refusesFunctions(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && fcall.MatchString(reply.Error())
}

// IsMissing reports whether the server has neither the script nor the function, or refuses functions: it has done nothing, and the call
// by itself finds a way.
func IsMissing(err error) bool { return isNoScript(err) || IsUnknown(err) || refusesFunctions(err) }

// Batch is calls that are sent together, perhaps with other commands.
type Batch struct{ whole map[scriptAt]bool }

// scriptAt is a script on a server.
type scriptAt struct {
	script *Script
	place  string
}

// words returns what is sent for a call: a function, or a script, which is sent in full the first time. If the server did not have it, what is
// behind would run all the same.
func (b *Batch) words(r *Runner, call Call) []any {
	if r.asFunction(call) || call.Script.only {
		return call.Args
	}
	if b.whole == nil {
		b.whole = map[scriptAt]bool{}
	}
	at := scriptAt{call.Script, r.place(call.Key())}
	if b.whole[at] {
		return call.hashed()
	}
	b.whole[at] = true
	return call.Eval()
}

// Command returns the call as a command that go-redis may retry.
func (b *Batch) Command(ctx context.Context, r *Runner, call Call) *Command {
	return call.command(ctx, false, b.words(r, call))
}

// Carry returns a command as a call, see Carried.
func (b *Batch) Carry(r *Runner, cmd redis.Cmder, call Call, keyAt int) Carried {
	return carry(cmd, call, b.words(r, call), keyAt)
}

// place names the server that a call on the key goes to, as far as the client can tell. Calls with one place share a script cache.
func (r *Runner) place(key string) string {
	if _, single := r.Client.(*redis.Client); single {
		return ""
	}
	return HashTag(key)
}
