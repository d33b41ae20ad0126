package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrNotReplicated is returned together with the reply of a call that was applied, but on fewer replicas than asked for.
var ErrNotReplicated = errors.New("done, but not on as many replicas as asked for")

// IsDone reports whether a call was applied, even if on too few replicas.
func IsDone(err error) bool {
	return err == nil || errors.Is(err, ErrNotReplicated)
}

// IsReply reports whether an error is a reply of the server, and not an error of the connection or the context.
func IsReply(err error) bool {
	return err != nil && redis.HasErrorPrefix(err, "") // which allocates even for nil
}

// isNoScript reports whether the server does not have a script that was called by its hash.
func isNoScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// IsTransient reports whether the server refused a command, with nothing changed, for a transient reason: it is loading or
// failing over, it is busy with a long script, or the slot moves from one cluster node to another.
func IsTransient(err error) bool {
	if !IsReply(err) {
		return false
	}
	for _, code := range []string{
		"TRYAGAIN ", "LOADING ", "MASTERDOWN ", "CLUSTERDOWN ", "READONLY ", "BUSY ",
		"MOVED ", "ASK ", // more of them than go-redis follows
	} {
		if redis.HasErrorPrefix(err, code) {
			return true
		}
	}
	for _, words := range []string{ // the same inside a script, in several versions of the server
		"ttempted to access a non local key",
		"during rehashing of the slot",
		"attempted to access a slot not served",
		"command while the cluster is down",
		"-READONLY You can't write",
	} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// Moves reports whether a call was refused because the meta or the plain key of a list may be on another node. Where a shard is away, the
// meta is there.
func (r *Runner) Moves(err error) bool {
	_, cluster := r.Client.(*redis.ClusterClient)
	return cluster && IsTransient(err) && PauseAfter(err, 0) > 0 && !redis.HasErrorPrefix(err, "TRYAGAIN shard ") &&
		(redis.HasErrorPrefix(err, "TRYAGAIN ") || keyIsAway.MatchString(err.Error()))
}

// IsFromScript reports whether a transient error is what a script replied, which ran and changed nothing. The server refuses others
// before it runs anything.
func IsFromScript(err error) bool {
	return IsReply(err) && fromScript.MatchString(err.Error())
}

// IsWrongType reports whether a key holds another type.
func IsWrongType(err error) bool { // Redis 6 and miniredis put words before it
	return IsReply(err) && strings.Contains(err.Error(), "WRONGTYPE Operation against a key")
}

// IsForbidden reports whether the server has no such command, or does not let the user call it.
func IsForbidden(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM ") || IsReply(err) && unknownCommand.MatchString(err.Error())
}

// away is what servers say of a script that uses a key which is on another node.
const away = `ttempted to access a non local key|during rehashing of the slot`

// LacksCommand reports whether the server has no such command, or does not let the user call it, on any key.
func LacksCommand(err error) bool {
	return IsReply(err) && (unknownCommand.MatchString(err.Error()) || mayNotRun.MatchString(err.Error()))
}

var (
	unknownCommand = regexp.MustCompile(`(?i)\bun(known|supported) command\b`)
	eval           = regexp.MustCompile(`(?i)(\bun(known|supported) command\W+|^NOPERM .* run the \W)eval(sha)?\b`)
	fcall          = regexp.MustCompile(`(?i)(\bun(known|supported) command\W+|^NOPERM .* run the \W)fcall\b`)
	mayNotRun      = regexp.MustCompile(`(?i)^NOPERM .* run the `)
	keyIsAway      = regexp.MustCompile(away)
	slotMoves      = regexp.MustCompile(`^TRYAGAIN |` + away)
	fromScript     = regexp.MustCompile(`^TRYAGAIN .* moving to another node|` + away)

	unknownInScript = regexp.MustCompile(`\bUnknown (Redis )?command called from `)
	miscounted      = regexp.MustCompile(`\bWrong number of args calling `)
)

// What ends the reply of a script that has done a part of the work, and is to be sent again.
const (
	newcomersWait = "elements of the plain list are being moved to the list" // shared/take_in.lua
	gathers       = "shards are being moved to one"                          // commands/rename.lua
)

// RefusesScripts reports whether a server does not carry out any script, so that it has carried out none.
func RefusesScripts(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && eval.MatchString(reply.Error())
}

// IsUnknownInScript reports whether a script has called a command that the server does not have.
func IsUnknownInScript(err error) bool {
	return IsReply(err) && unknownInScript.MatchString(err.Error())
}

// IsMiscounted reports whether a script has called a command with too few or too many words.
func IsMiscounted(err error) bool { return IsReply(err) && miscounted.MatchString(err.Error()) }

// Explain adds to the error of a script what the server lacks for all scripts, or what keeps it from serving the list.
func Explain(err error) error {
	switch {
	case !IsReply(err):
		return err
	case RefusesScripts(err):
		return fmt.Errorf("the server or its ACL does not allow EVAL and EVALSHA, which operations need that are not called as functions: %w", err)
	case IsUnknownInScript(err), IsMiscounted(err):
		return fmt.Errorf("the server is older than Redis 6.2, or lacks a command that scripts need: %w", err)
	case strings.HasSuffix(err.Error(), newcomersWait):
		return fmt.Errorf("processes without this library push to the plain key faster than elements can be taken in: %w", err)
	case strings.HasSuffix(err.Error(), gathers):
		return fmt.Errorf("the new name is that of a restored list, so all shards are moved to one first; call again to go on: %w", err)
	case slotMoves.MatchString(err.Error()):
		return fmt.Errorf("the cluster slot of the list is moving to another node; "+
			"if nobody is moving it, end that with redis-cli --cluster fix or CLUSTER SETSLOT <slot> STABLE: %w", err)
	}
	return err
}

// IsLost reports whether a connection failed, so that the server may or may not have acted.
func IsLost(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var connection net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &connection)
}

// MayHaveActed reports whether the server may have applied an operation that failed with err.
func MayHaveActed(err error) bool {
	if IsReply(err) || errors.Is(err, ErrNotRun) || errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return false
	}
	var connection *net.OpError
	return !errors.As(err, &connection) || connection.Op != "dial"
}

// InPipeline returns the error of a call that went with others so that nobody takes that of a context for the error of a call that was not
// sent.
func InPipeline(err error) error {
	if err == context.Canceled || err == context.DeadlineExceeded {
		return fmt.Errorf("in a pipeline: %w", err)
	}
	return err
}
