// Package script loads Lua scripts and runs them on a go-redis client.
//
// The package knows EVALSHA and EVAL, transient errors, and how to wait for replicas. It does not know lists: a script is text,
// keys and arguments.
package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/stats"
	"github.com/shardedlist/shardedlist/lua"
)

// Script is one of the library's Lua scripts, with all that it requires.
type Script struct {
	name     string
	function bool // whether it is one
	only     bool // and is never sent as a script
	called   any  // the name of that function, a string; in an interface already, as each call needs it
	words    bool // it takes a word for each key, see lua/shared/keys.lua

	text func() text // what servers get that have no functions; most programs need none of it

	readable func() string // the source with its comments
	kind     stats.Kind
	fullName string // for those who trace commands
}

// Load returns the script of that name. It panics if there is none, because scripts are part of the program.
func Load(name string) *Script { return load(name, "") }

// LoadAround is Load for a script that runs a source of the user's, see lua.Around.
func LoadAround(name, source string) *Script { return load(name, lua.Around(source)) }

// text is that of a script as it is sent, see lua.Minify.
type text struct {
	source string
	hash   any // a string
}

func load(name, front string) *Script {
	return &Script{
		name: name, function: lua.IsFunction(name), only: lua.IsOnlyFunction(name), called: lua.Functions().Function(name), words: lua.Requires(name, "shared/keys"),
		text: sync.OnceValue(func() text {
			source := front + lua.Minify(lua.Source(name))
			return text{source, redis.NewScript(source).Hash()}
		}),
		readable: func() string { return front + lua.Source(name) }, kind: stats.KindOf(name), fullName: fullName(name),
	}
}

// LoadStep is Load for a script that is one step of an operation. Those who trace commands see the operation.
func LoadStep(name, operation string) *Script {
	s := Load(name)
	s.name, s.fullName = operation, fullName(operation)
	return s
}

func fullName(operation string) string { return "shardedlist." + operation }

// Kind returns the kind of operation that the script is.
func (s *Script) Kind() stats.Kind { return s.kind }

// Call is a script with its keys and arguments.
type Call struct {
	Script *Script
	Args   []any       // the words of FCALL, or of EVALSHA if the script is no function
	Waits  bool        // for replicas, if the Runner has to wait for any
	List   *stats.List // that the call is for, or nil
}

// keysAt is the position of the first key in these words.
const keysAt = 3

// NewCall returns a call of the script on the keys, which are strings. The caller appends up to room arguments to Args. plain is what
// the script is told of the plain key of each, see lua/shared/keys.lua.
func NewCall(s *Script, keys []any, room int, plain ...any) Call {
	args := make([]any, keysAt, keysAt+2*len(keys)+room)
	args[0], args[1], args[2] = "fcall", s.called, len(keys)
	if !s.function {
		args[0], args[1] = "evalsha", s.text().hash
	}
	args = append(args, keys...)
	for i := 0; s.words && i < len(keys); i++ {
		if i < len(plain) {
			args = append(args, plain[i])
		} else {
			args = append(args, "")
		}
	}
	return Call{Script: s, Args: args}
}

// AtOnce tells the script to do all of its work, see '*' in lua/shared/keys.lua.
func (c Call) AtOnce() {
	if !c.Script.words {
		return
	}
	keys := len(c.Keys())
	for i, word := range c.Args[keysAt+keys : keysAt+2*keys] {
		if key, waits := strings.CutPrefix(word.(string), "+"); waits {
			c.Args[keysAt+keys+i] = "*" + key
		}
	}
}

// Turn returns the call for the node that has the plain keys, or from there back for the one that has the metas: while their slot moves,
// they may be apart, and a short list has no meta. See BY_PLAIN in lua/shared/keys.lua.
func (c Call) Turn() Call {
	if !c.Script.words {
		return c
	}
	keys := len(c.Keys())
	c.Args = slices.Clone(c.Args)
	for i := range keys {
		key, word := &c.Args[keysAt+i], &c.Args[keysAt+keys+i]
		switch text := (*word).(string); {
		case text == "": // not a list's
		case text[0] == byPlain:
			*key, *word = text[2:], text[1:2]+(*key).(string)
		default:
			*key, *word = text[1:], string(byPlain)+text[:1]+(*key).(string)
		}
	}
	return c
}

// byPlain begins a word that has the meta, where the plain key is declared in its place.
const byPlain = '='

// ByPlain tells whether the call goes to the node that has the plain keys.
func (c Call) ByPlain() bool {
	if !c.Script.words {
		return false
	}
	word, _ := c.Args[keysAt+len(c.Keys())].(string)
	return word != "" && word[0] == byPlain
}

// Meta returns the meta of the first list.
func (c Call) Meta() string {
	if c.ByPlain() {
		return c.Args[keysAt+len(c.Keys())].(string)[2:]
	}
	return c.Key()
}

// Key returns the first key, which determines the node that the call goes to.
func (c Call) Key() string { return c.Args[keysAt].(string) }

// Keys returns the keys.
func (c Call) Keys() []any { return c.Args[keysAt : keysAt+c.Args[keysAt-1].(int)] }

// hashed returns the words of EVALSHA.
func (c Call) hashed() []any {
	args := slices.Clone(c.Args)
	args[0], args[1] = "evalsha", c.Script.text().hash
	return args
}

// Eval returns the words of EVAL, for a server that does not have the script.
func (c Call) Eval() []any {
	args := slices.Clone(c.Args)
	args[0], args[1] = "eval", c.Script.text().source
	return args
}

// Runner runs scripts on a client.
type Runner struct {
	Client redis.UniversalClient

	// Replicas is the number of replicas that a call with Waits must reach before it returns, and ReplicaTimeout how long it
	// waits for them. If Replicas is 0, no call waits.
	Replicas       int
	ReplicaTimeout time.Duration
}

// Run retries a call while the server cannot serve it for now (see IsTransient), until the deadline of ctx. go-redis also
// retries it when a connection fails.
func (r *Runner) Run(ctx context.Context, call Call) (any, error) {
	var reply any
	again := false
	err := Retry(ctx, func() (err error) {
		if again {
			call.List.Repeat()
		}
		again = true
		if reply, err = r.once(ctx, call, false); r.Moves(err) {
			call = call.Turn()
		}
		return err
	})
	return reply, err
}

// Once sends a call once. go-redis does not retry it.
func (r *Runner) Once(ctx context.Context, call Call) (any, error) {
	return r.once(ctx, call, true)
}

// once sends a call. A script's nil is a nil reply, not an error. With ErrNotReplicated there is a reply too.
func (r *Runner) once(ctx context.Context, call Call, noRetry bool) (any, error) {
	start := time.Now()
	cmd, err := r.process(ctx, call, noRetry)
	call.List.Replied(time.Since(start))
	switch {
	case err == redis.Nil:
		return nil, nil
	case !IsDone(err):
		return nil, Explain(err) // without what there may be of a reply
	}
	return cmd.Val(), err
}

func (r *Runner) deliver(ctx context.Context, call Call, cmd *Command) error {
	if call.Waits && r.Replicas > 0 {
		return r.replicate(ctx, call.Key(), cmd)
	}
	if client, one := r.Client.(*redis.Client); one && mayShare(client, call, cmd) {
		return serversOf(client).writer.process(ctx, client, cmd)
	}
	return r.Client.Process(ctx, cmd)
}

// words returns what is sent for a call if its script need not be sent in full.
func (r *Runner) words(call Call) []any {
	if r.asFunction(call) {
		return call.Args
	}
	return call.hashed()
}

// Behind sends a call after another command, in one pipeline that go-redis does not retry: it would retry the whole pipeline if
// the first command failed, although the call may have been applied. It returns the call's reply and error, and that command.
func (r *Runner) Behind(ctx context.Context, command []any, call Call) (reply any, before *Command, err error) {
	before, cmd := newCommand(ctx, true, command), call.command(ctx, true, r.words(call))
	before.list = call.List
	if call.Waits && r.Replicas > 0 {
		err = r.replicate(ctx, call.Key(), cmd, before)
	} else {
		errs := execute(ctx, r.Client, before, cmd)
		err = lastError(r.Client, errs[0], errs[1])
	}
	reply = cmd.Val()
	if IsMissing(err) || isFull(err) {
		reply, err = r.Once(ctx, call)
	}
	if !IsDone(err) {
		reply, err = nil, Explain(err)
	}
	return reply, before, err
}

// lastError returns the error of the second of two commands in a pipeline. A cluster client sends commands again that a node has redirected,
// or for which it had no connection. If that attempt fails too, the error of the earlier one may remain, which says that the server has done
// nothing. But the first command has the error of its last reply, if one was to come.
func lastError(rdb redis.UniversalClient, first, err error) error {
	_, cluster := rdb.(*redis.ClusterClient)
	redirected := redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")
	unsent := err != nil && !IsReply(err) && !MayHaveActed(err)
	if cluster && (redirected || unsent && !errors.Is(first, err)) {
		return fmt.Errorf("there may have been no reply to a second attempt, behind one that failed: %v", err)
	}
	return err
}

// Before sends a call with a command behind it, and one before it if that is not nil, in one pipeline to one server. go-redis neither
// retries it nor follows redirections of parts of it. So what is behind sees what the call has done, if both succeed. A call that the
// server did not run, since it does not have the script or the slot, has ErrNotRun.
func (r *Runner) Before(ctx context.Context, before []any, call Call, command []any) (reply any, first, last *Command, err error) {
	server, err := Master(ctx, r.Client, call.Key())
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", ErrNotRun, err)
	}
	start := time.Now()
	cmd, last := call.command(ctx, true, r.words(call)), newCommand(ctx, true, command)
	last.list = call.List
	cmds := []redis.Cmder{cmd, last}
	if before != nil {
		first = newCommand(ctx, true, before)
		first.list = call.List
		cmds = []redis.Cmder{first, cmd, last}
	}
	execute(ctx, server, cmds...)
	if before == nil {
		call.List.Replied(time.Since(start))
	}
	switch err := cmd.Err(); {
	case IsMissing(err), isFull(err), redis.HasErrorPrefix(err, "MOVED "), redis.HasErrorPrefix(err, "ASK "):
		return nil, first, last, fmt.Errorf("%w: %w", ErrNotRun, err)
	case !IsDone(err):
		return nil, first, last, Explain(err)
	}
	return cmd.Val(), first, last, nil
}

// Between sends a command between two calls, in one transaction, which go-redis neither retries nor redirects. It returns the reply of the
// second call. If that is nil, or the server has not carried out the transaction, the error is ErrNotRun. A server may have no
// transactions, or not for this user. Then it carries out the three one by one: with ErrNotAtomic there is a reply.
func (r *Runner) Between(ctx context.Context, first Call, command []any, second Call) (any, error) {
	server, err := Master(ctx, r.Client, first.Key())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRun, err)
	}
	start := time.Now()
	first.Args, second.Args = r.words(first), r.words(second)
	reply, err := between(ctx, server, first, command, second)
	if isNoScript(err) {
		first.Args, second.Args = first.Eval(), second.Eval()
		reply, err = between(ctx, server, first, command, second)
	}
	first.List.Replied(time.Since(start))
	return reply, err
}

func between(ctx context.Context, server redis.Cmdable, first Call, command []any, second Call) (any, error) {
	plain := func(words ...any) *Command {
		cmd := newCommand(ctx, true, words)
		cmd.list = first.List
		return cmd
	}
	multi, end, exec := plain("multi"), second.command(ctx, true, second.Args), plain("exec")
	errs := execute(ctx, server, multi, first.command(ctx, true, first.Args), plain(command...), end, exec)
	switch err := errors.Join(errs...); {
	case exec.Err() != nil && !IsReply(exec.Err()):
		return nil, exec.Err()
	case multi.Err() != nil && end.Err() == nil && end.Val() != nil:
		return end.Val(), fmt.Errorf("%w: %w", ErrNotAtomic, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotRun, err)
	}
	replies, _ := exec.Val().([]any)
	var failures []error
	for _, reply := range replies {
		if err, failed := reply.(error); failed {
			failures = append(failures, err)
		}
	}
	if len(replies) != 3 || replies[2] == nil || len(failures) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrNotRun, errors.Join(failures...))
	}
	return replies[2], nil
}

// ErrNotAtomic comes with the reply of what Between has sent, and the server has carried out one by one.
var ErrNotAtomic = errors.New("the commands were carried out one by one")

// ErrNotRun is the error of what Before or Between has sent, and the server has not run.
var ErrNotRun = errors.New("the script was not run")

// execute sends commands in one pipeline, and returns their errors.
func execute(ctx context.Context, rdb redis.Cmdable, cmds ...redis.Cmder) []error {
	pipe := rdb.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx)
	errs := make([]error, len(cmds))
	for i, cmd := range cmds {
		errs[i] = cmd.Err()
	}
	return errs
}

// Atomic sends calls in one transaction, which go-redis does not retry, and returns their replies.
func (r *Runner) Atomic(ctx context.Context, calls []Call) ([]any, error) {
	replies, err := r.transaction(ctx, calls, r.words)
	if IsMissing(err) || isFull(err) {
		replies, err = r.transaction(ctx, calls, Call.Eval)
	}
	return replies, err
}

func (r *Runner) transaction(ctx context.Context, calls []Call, words func(Call) []any) ([]any, error) {
	pipe := r.Client.TxPipeline()
	cmds := make([]*Command, len(calls))
	for i, call := range calls {
		cmds[i] = call.command(ctx, true, words(call))
		_ = pipe.Process(ctx, cmds[i])
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	replies := make([]any, len(cmds))
	for i, cmd := range cmds {
		if err := cmd.Err(); err != nil && err != redis.Nil {
			return nil, err
		}
		replies[i] = cmd.Val()
	}
	return replies, nil
}

// Together sends commands that only read in one transaction, and returns their replies.
func (r *Runner) Together(ctx context.Context, commands ...[]any) ([]any, error) {
	pipe := r.Client.TxPipeline()
	for _, words := range commands {
		_ = pipe.Process(ctx, NewCommand(ctx, words...))
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		return nil, err
	}
	replies := make([]any, len(cmds))
	for i, cmd := range cmds {
		replies[i] = cmd.(*Command).Val()
	}
	return replies, nil
}

// Command is a command of this library, which its hook passes through.
type Command struct {
	redis.Cmd
	noRetry bool // go-redis must not repeat it

	script *Script     // nil for another command
	list   *stats.List // nil if it is for none
}

// NewCommand returns a command that go-redis may retry.
func NewCommand(ctx context.Context, args ...any) *Command { return newCommand(ctx, false, args) }

// NewCommandOnce returns a command that go-redis does not repeat, nor the pipeline or transaction that it is in.
func NewCommandOnce(ctx context.Context, args ...any) *Command { return newCommand(ctx, true, args) }

func newCommand(ctx context.Context, noRetry bool, args []any) *Command {
	return &Command{Cmd: *redis.NewCmd(ctx, args...), noRetry: noRetry}
}

// Whole returns the call as a command that go-redis does not repeat, with the script itself.
func (c Call) Whole(ctx context.Context) *Command { return c.command(ctx, true, c.Eval()) }

func (c Call) command(ctx context.Context, noRetry bool, args []any) *Command {
	cmd := newCommand(ctx, noRetry, args)
	cmd.script, cmd.list = c.Script, c.List
	return cmd
}

// Readable returns the script that a command runs, with its comments, or else an empty string.
func Readable(cmd redis.Cmder) string {
	var s *Script
	switch cmd := cmd.(type) {
	case *Command:
		s = cmd.script
	case Carried:
		s = cmd.script
	}
	if s == nil {
		return ""
	}
	return s.readable()
}

// FullName tells those who trace commands which script it is. go-redis itself goes by Name, which is that of what is sent.
func (c *Command) FullName() string {
	if c.script == nil {
		return c.Cmd.FullName()
	}
	return c.script.fullName
}

// About returns the name of the list that the command is for, and that of the script. Either is empty if there is none.
func (c *Command) About() (list, operation string) {
	if c.list != nil {
		list = c.list.Name
	}
	if c.script != nil {
		operation = c.script.name
	}
	return list, operation
}

// Once keeps go-redis from repeating the command, see NewCommandOnce.
func (c *Command) Once() { c.noRetry = true }

// NoRetry is called by go-redis.
func (c *Command) NoRetry() bool { return c.noRetry }
