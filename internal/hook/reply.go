package hook

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// setReply sets the reply of a command as the server sends it: nil, an int64, a string, or a []any of these. It returns the
// command's error. There can be a reply beside an error: that of an operation on too few replicas, or of the parts of a large one
// that were applied before the error.
func setReply(cmd redis.Cmder, reply any, err error) error {
	if err == nil && reply == nil {
		err = redis.Nil
	}
	if reply != nil && !setValue(cmd, reply) {
		err = fmt.Errorf("shardedlist: a %T cannot hold a %T", cmd, reply)
	}
	err = asReplied(err)
	cmd.SetErr(err)
	return err
}

type setter[T any] interface{ SetVal(value T) }

// setValue sets the reply of a command in the type that go-redis uses for it.
func setValue(cmd redis.Cmder, reply any) bool {
	if cmd, ok := cmd.(setter[any]); ok {
		cmd.SetVal(reply)
		return true
	}
	switch reply := reply.(type) {
	case int64:
		return setInteger(cmd, reply)
	case string:
		cmd, ok := cmd.(setter[string])
		if ok {
			cmd.SetVal(reply)
		}
		return ok
	case []any:
		return setArray(cmd, reply)
	}
	return false
}

func setInteger(cmd redis.Cmder, reply int64) bool {
	switch cmd := cmd.(type) {
	case setter[int64]:
		cmd.SetVal(reply)
	case setter[bool]:
		cmd.SetVal(reply == 1)
	case *redis.DurationCmd:
		unit := time.Second
		if strings.HasPrefix(cmd.Name(), "p") {
			unit = time.Millisecond
		}
		if reply < 0 { // -1 and -2, which go-redis leaves as they are
			unit = 1
		}
		cmd.SetVal(time.Duration(reply) * unit)
	default:
		return false
	}
	return true
}

func setArray(cmd redis.Cmder, reply []any) bool {
	switch cmd := cmd.(type) {
	case setter[[]any]:
		cmd.SetVal(reply)
	case setter[[]string]:
		cmd.SetVal(each[string](reply))
	case setter[[]int64]:
		cmd.SetVal(each[int64](reply))
	case *redis.ScanCmd:
		cursor, err := strconv.ParseUint(reply[0].(string), 10, 64)
		cmd.SetVal(each[string](reply[1].([]any)), cursor)
		return err == nil
	case *redis.KeyValuesCmd:
		cmd.SetVal(reply[0].(string), each[string](reply[1].([]any)))
	default:
		return false
	}
	return true
}

// each returns the values of an array whose elements all have one type.
func each[T any](array []any) []T {
	values := make([]T, len(array))
	for i, value := range array {
		values[i] = value.(T)
	}
	return values
}

// array is the inverse of each.
func array[T any](values []T) []any {
	array := make([]any, len(values))
	for i, value := range values {
		array[i] = value
	}
	return array
}

// asReplied turns an error of a sharded list into the corresponding error of Redis: without the text that this package adds,
// and without the text that the server adds to an error inside a script. It explains what the server lacks for all scripts.
func asReplied(err error) error {
	for _, ours := range []error{session.ErrOutcomeUnknown, session.ErrReplyLost, session.ErrNotRepeated, script.ErrNotReplicated} {
		if errors.Is(err, ours) {
			return err // more than the server's reply in it tells
		}
	}
	var replied redis.Error
	if err == nil || err == redis.Nil || !errors.As(err, &replied) {
		return err
	}
	text := replied.Error()
	switch {
	case strings.HasPrefix(text, "RESERVED "):
		return fmt.Errorf("shardedlist: %w: %s", ErrUnsupported, strings.TrimPrefix(text, "RESERVED "))
	case strings.HasPrefix(text, "STAYSPLAIN "):
		return fmt.Errorf("shardedlist: %w: a long list at a name that does not match, which no client would find: read it with LRANGE and push what "+
			"was read", ErrUnsupported)
	case strings.Contains(text, string(rediserr.WrongType)):
		return rediserr.WrongType
	}
	if at := scriptPosition.FindStringIndex(text); at != nil {
		return script.Explain(rediserr.Error(text[:at[0]]))
	}
	return script.Explain(replied)
}

// scriptPosition is what a server adds to an error inside a script. Valkey 9 may leave the hash out.
var scriptPosition = regexp.MustCompile(` script: ([0-9a-z_]+, )?on @?user_(script|function):`)
