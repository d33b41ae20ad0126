package shardedlist

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/lua"
)

// The scripts, one an operation.
var (
	pushScript     = loadScript("push")
	popScript      = loadScript("pop")
	settleScript   = loadScript("resolve")
	forgetScript   = loadScript("forget")
	lsetScript     = loadScript("lset")
	linsertScript  = loadScript("linsert")
	lremScript     = loadScript("lrem")
	ltrimScript    = loadScript("ltrim")
	lposScript     = loadScript("lpos")
	llenScript     = loadScript("llen")
	lindexScript   = loadScript("lindex")
	lrangeScript   = loadScript("lrange")
	lmoveScript    = loadScript("lmove")
	lmpopScript    = loadScript("lmpop")
	transferScript = loadScript("transfer")
	expireScript   = loadScript("expire")
	ttlScript      = loadScript("ttl")
	scanScript     = loadScript("scan")
	delScript      = loadScript("del")
	sweepScript    = loadScript("sweep")
	objectScript   = loadScript("object")
	infoScript     = loadScript("info")
	checkScript    = loadScript("check")

	releaseScript = loadScript("release")
)

// script is a Lua script and its text.
type script struct {
	*redis.Script
	source string
	lane   bool // it is an operation, which goes through a lane
}

func loadScript(name string) *script {
	source := lua.Source(name)
	return &script{redis.NewScript(source), source, lua.Requires(name, "shared/session")}
}

// retryFor bounds how long an operation whose context has no deadline is repeated while the server says that it cannot
// serve it for the moment.
const retryFor = 10 * time.Second

// run executes a script on the list. A server that does not know the script is sent it; one that is for the moment unable
// to run it (see isPassing) is asked again until the deadline of ctx.
func (l *ShardedList) run(ctx context.Context, script *script, args ...any) (any, error) {
	return l.send(ctx, script, scriptCall(script, l.scriptKeys, args))
}

// scriptCall is the EVALSHA of a script.
func scriptCall(script *script, keys []string, args []any) []any {
	call := make([]any, 0, 3+len(keys)+len(args))
	call = append(call, "evalsha", script.Hash(), len(keys))
	for _, key := range keys {
		call = append(call, key)
	}
	return append(call, args...)
}

// send sends the EVALSHA of a script until the server can serve it.
func (l *ShardedList) send(ctx context.Context, script *script, call []any) (any, error) {
	giveUp := deadline(ctx)
	for attempt := 0; ; attempt++ {
		reply, err := l.evaluate(ctx, script, call, false)
		if isDone(err) || !isPassing(err) {
			return reply, typed(err)
		}
		pause := backoff(attempt)
		if time.Until(giveUp) < pause {
			return nil, typed(err)
		}
		if sleepErr := sleep(ctx, pause); sleepErr != nil {
			return nil, fmt.Errorf("%w, last reply: %w", sleepErr, err)
		}
	}
}

// evaluate sends the EVALSHA of a script, and as EVAL to a server that does not know it. With ErrNotReplicated there is a reply.
func (l *ShardedList) evaluate(ctx context.Context, script *script, call []any, once bool) (any, error) {
	cmd := own{redis.NewCmd(ctx, call...), once}
	err := l.process(ctx, script, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = own{redis.NewCmd(ctx, script.whole(call)...), once}
		err = l.process(ctx, script, cmd)
	}
	if !isDone(err) {
		return nil, err // and not what there may be of a reply
	}
	return cmd.Val(), err
}

func (l *ShardedList) process(ctx context.Context, script *script, cmd own) error {
	if script.lane && l.replicas > 0 {
		return l.replicate(ctx, cmd)
	}
	return l.rdb.Process(ctx, cmd)
}

// whole turns an EVALSHA of the script into an EVAL.
func (s *script) whole(call []any) []any {
	call = slices.Clone(call)
	call[0], call[1] = "eval", s.source
	return call
}

// own is a command of this package.
type own struct {
	*redis.Cmd
	once bool // go-redis is not to repeat it
}

func (c own) NoRetry() bool { return c.once }

// deadline is when to give up an operation.
func deadline(ctx context.Context) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline
	}
	return time.Now().Add(retryFor)
}

// isPassing tells whether the server refused a command, with nothing changed, for a reason that will pass: it is starting
// or failing over, or the list is on its way from one cluster node to another.
func isPassing(err error) bool {
	if !isReply(err) {
		return false
	}
	for _, code := range []string{
		"TRYAGAIN ", "LOADING ", "MASTERDOWN ", "CLUSTERDOWN ", "READONLY ",
		"MOVED ", "ASK ", // more of them than go-redis follows
	} {
		if redis.HasErrorPrefix(err, code) {
			return true
		}
	}
	for _, words := range []string{ // as scripts meet the like, from several versions of the server
		"Script attempted to access a non local key",
		"command while the cluster is down",
		"-READONLY You can't write",
	} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// isReply tells an error that the server replied with from one of the connection or the context.
func isReply(err error) bool {
	return redis.HasErrorPrefix(err, "")
}

// typed adds the sentinel that a caller can branch on to an error the server replied with.
func typed(err error) error {
	if err == nil || err == redis.Nil || !isReply(err) {
		return err
	}
	for code, sentinel := range map[string]error{
		"WRONGTYPE Operation against a key": ErrWrongType, // Redis 6 and embedded servers put words of their own before it
		"BADLAYOUT ":                        ErrLayout,
		"BROKENLIST ":                       ErrBroken,
	} {
		if redis.HasErrorPrefix(err, code) || sentinel == ErrWrongType && strings.Contains(err.Error(), code) {
			return fmt.Errorf("%w: %w", sentinel, err)
		}
	}
	return err
}

// backoff is the pause after a number of failed attempts: from 2 ms, doubling, to 32 ms.
func backoff(attempt int) time.Duration {
	return 2 * time.Millisecond << min(attempt, 4)
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wrap says which operation on which list failed. redis.Nil stays as it is: callers compare it with ==.
func (l *ShardedList) wrap(operation string, err error) error {
	if err == nil || err == redis.Nil {
		return err
	}
	return fmt.Errorf("shardedlist: %s %q: %w", operation, l.name, err)
}
