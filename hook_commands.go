package shardedlist

import (
	"context"
	"math"
	"strconv"
	"time"
)

var (
	oneKey    = keySpec{first: 1, last: 1}
	twoKeys   = keySpec{first: 1, last: 2}
	allKeys   = keySpec{first: 1, last: -1}
	butLast   = keySpec{first: 1, last: -2} // a timeout
	secondKey = keySpec{first: 2, last: 2}
)

// What to do instead of commands that a sharded list does not support.
const (
	noWatch  = "a transaction of list commands, or one command that moves elements, needs no WATCH"
	noForm   = "read it with LRANGE and push what was read"
	noSort   = "read it with LRANGE and sort what was read"
	noOther  = "there is no other database for it: copy it under another name, or read it with LRANGE and push what was read"
	noScript = "a script sees the keys of the shards only: call the list commands from Go; a transaction of them is atomic"
)

// commands are those that the hook takes, by name.
var commands = map[string]*command{
	"lpush": {arity: -3, keys: oneKey, translate: joinPush(left), direct: pushAlone(left)},
	"rpush": {arity: -3, keys: oneKey, translate: joinPush(right), direct: pushAlone(right)},
	"lpop":  {arity: -2, keys: oneKey, translate: joinPop(left), direct: popAlone(left)},
	"rpop":  {arity: -2, keys: oneKey, translate: joinPop(right), direct: popAlone(right)},

	"rpoplpush":  {arity: 3, keys: twoKeys, translate: runErrand(rpoplpush)},
	"lmove":      {arity: 5, keys: twoKeys, translate: runErrand(lmove)},
	"lmovem":     {arity: -5, keys: twoKeys, translate: runErrand(lmovem)},
	"lmpop":      {arity: -4, keys: keySpec{number: 1, behind: 1}, translate: runErrand(lmpop)},
	"blpop":      {arity: -3, keys: butLast, blocks: true, translate: runErrand(blpop("LEFT")), direct: awaitErrand(blpop("LEFT"))},
	"brpop":      {arity: -3, keys: butLast, blocks: true, translate: runErrand(blpop("RIGHT")), direct: awaitErrand(blpop("RIGHT"))},
	"brpoplpush": {arity: 4, keys: twoKeys, blocks: true, translate: runErrand(brpoplpush), direct: awaitErrand(brpoplpush)},
	"blmove":     {arity: 6, keys: twoKeys, blocks: true, translate: runErrand(blmove), direct: awaitErrand(blmove)},
	"blmovem":    {arity: -6, keys: twoKeys, blocks: true, translate: runErrand(blmovem), direct: awaitErrand(blmovem)},
	"blmpop":     {arity: -5, keys: keySpec{number: 2, behind: 1}, blocks: true, translate: runErrand(blmpop), direct: awaitErrand(blmpop)},

	"lpushx":  {arity: -3, keys: oneKey, translate: pushXOnto(left)},
	"rpushx":  {arity: -3, keys: oneKey, translate: pushXOnto(right)},
	"lset":    {arity: 4, keys: oneKey, translate: translateLSet},
	"linsert": {arity: 5, keys: oneKey, translate: translateLInsert},
	"lrem":    {arity: 4, keys: oneKey, translate: translateLRem},
	"ltrim":   {arity: 4, keys: oneKey, translate: translateLTrim},
	"lpos":    {arity: -3, keys: oneKey, translate: translateLPos},

	"llen":   {arity: 2, keys: oneKey, translate: translateLLen},
	"lindex": {arity: 3, keys: oneKey, translate: translateLIndex},
	"lrange": {arity: 4, keys: oneKey, translate: translateLRange},

	"del":    {arity: -2, keys: allKeys, general: true, translate: translateDel},
	"unlink": {arity: -2, keys: allKeys, general: true, translate: translateDel},
	"exists": {arity: -2, keys: allKeys, general: true, translate: translateExists},
	"touch":  {arity: -2, keys: allKeys, general: true, translate: translateExists},
	"type":   {arity: 2, keys: oneKey, general: true, translate: translateType},

	"expire":      {arity: -3, keys: oneKey, general: true, translate: translateExpire(expiryIn, time.Second)},
	"pexpire":     {arity: -3, keys: oneKey, general: true, translate: translateExpire(expiryIn, time.Millisecond)},
	"expireat":    {arity: -3, keys: oneKey, general: true, translate: translateExpire(expiryAt, time.Second)},
	"pexpireat":   {arity: -3, keys: oneKey, general: true, translate: translateExpire(expiryAt, time.Millisecond)},
	"persist":     {arity: 2, keys: oneKey, general: true, translate: translatePersist},
	"ttl":         {arity: 2, keys: oneKey, general: true, translate: translateTTL(lifetime{time.Second, false})},
	"pttl":        {arity: 2, keys: oneKey, general: true, translate: translateTTL(lifetime{time.Millisecond, false})},
	"expiretime":  {arity: 2, keys: oneKey, general: true, translate: translateTTL(lifetime{time.Second, true})},
	"pexpiretime": {arity: 2, keys: oneKey, general: true, translate: translateTTL(lifetime{time.Millisecond, true})},

	"rename":   {arity: 3, keys: twoKeys, translate: translateRename("OK", true)},
	"renamenx": {arity: 3, keys: twoKeys, translate: translateRename(int64(1), false)},
	"copy":     {arity: -3, keys: twoKeys, translate: translateCopy},

	"object": {arity: -2, keys: secondKey, general: true, translate: translateObject},
	"memory": {arity: -2, keys: secondKey, general: true, translate: translateMemory},

	"watch":      {arity: -2, keys: allKeys, instead: noWatch},
	"dump":       {arity: 2, keys: oneKey, instead: noForm},
	"restore":    {arity: -4, keys: oneKey, instead: noForm},
	"move":       {arity: 3, keys: oneKey, instead: noForm},
	"migrate":    {arity: -6, keys: allKeys, instead: noForm},
	"sort":       {arity: -2, keys: allKeys, instead: noSort},
	"sort_ro":    {arity: -2, keys: oneKey, instead: noSort},
	"eval":       {arity: -3, keys: keySpec{number: 2}, instead: noScript},
	"evalsha":    {arity: -3, keys: keySpec{number: 2}, instead: noScript},
	"eval_ro":    {arity: -3, keys: keySpec{number: 2}, instead: noScript},
	"evalsha_ro": {arity: -3, keys: keySpec{number: 2}, instead: noScript},
	"fcall":      {arity: -3, keys: keySpec{number: 2}, instead: noScript},
	"fcall_ro":   {arity: -3, keys: keySpec{number: 2}, instead: noScript},

	"publish": nil, "spublish": nil, "echo": nil, "ping": nil, "keys": nil, // what they are given is no key
}

// otherCommand is any other command, whose first argument is a key if it matches: Redis would find a list there.
var otherCommand = command{arity: -2, keys: oneKey, general: true, translate: translateOther}

func pushAlone(end side) func(context.Context, *invocation, []*ShardedList) (any, error) {
	return func(ctx context.Context, c *invocation, lists []*ShardedList) (any, error) {
		return lists[0].push(ctx, end, c.args[2:])
	}
}

func joinPush(end side) func(context.Context, *invocation, []*ShardedList) (*translation, error) {
	return func(ctx context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
		l := lists[0]
		values, err := l.encode(ctx, c.args[2:])
		if err != nil {
			return nil, err
		}
		if _, err := l.creationCapacity(ctx); err != nil {
			return nil, err
		}
		r := newRequest()
		r.values, r.count = values, len(values)
		_, r.bytes = callSize(values)
		return &translation{joined: &joined{l, end, &pushes, r, func(r *request) any { return r.length }}}, nil
	}
}

// popCount reads the count of a pop: 1 and false if there is none.
func (c *invocation) popCount() (count int64, counted bool, err error) {
	switch len(c.args) {
	case 2:
		return 1, false, nil
	case 3:
		count, err = c.integer(2)
		if err != nil || count < 0 {
			return 0, true, replyError("ERR value is out of range, must be positive")
		}
		return count, true, nil
	}
	return 0, false, c.wrongNumber()
}

func popAlone(end side) func(context.Context, *invocation, []*ShardedList) (any, error) {
	return func(ctx context.Context, c *invocation, lists []*ShardedList) (any, error) {
		count, counted, err := c.popCount()
		switch {
		case err != nil:
			return nil, err
		case counted:
			values, err := lists[0].popCount(ctx, end, int(count))
			if values == nil {
				return nil, err
			}
			return array(values), err
		}
		return lists[0].popOne(ctx, end)
	}
}

func joinPop(end side) func(context.Context, *invocation, []*ShardedList) (*translation, error) {
	return func(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
		count, counted, err := c.popCount()
		if err != nil {
			return nil, err
		}
		if count == 0 {
			return reading(lists[0], llenScript, func(length any) (any, error) {
				if length == int64(0) {
					return nil, nil
				}
				return []any{}, nil
			}), nil
		}
		r := newRequest()
		r.count = int(min(count, maxListLength))
		return &translation{joined: &joined{lists[0], end, &pops, r, func(r *request) any {
			switch {
			case len(r.popped) == 0:
				return nil
			case counted:
				return array(r.popped)
			}
			return r.popped[0]
		}}}, nil
	}
}

// maxListLength is more than any list holds, and little enough for Lua to count exactly.
const maxListLength = 1 << 52

// reading is the translation of a command into one script that needs no lane.
func reading(l *ShardedList, script *script, reply func(any) (any, error), args ...any) *translation {
	return &translation{
		steps: []step{{l, operation{script: script, args: scriptCall(script, l.scriptKeys, args)}}},
		reply: func(replies []any, _ any) (any, error) { return reply(replies[0]) },
	}
}

func same(reply any) (any, error) { return reply, nil }

func translateLLen(_ context.Context, _ *invocation, lists []*ShardedList) (*translation, error) {
	return reading(lists[0], llenScript, same), nil
}

func translateLIndex(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	index, err := c.integer(2)
	if err != nil {
		return errUnlessEmpty(lists[0], err, nil), nil
	}
	return reading(lists[0], lindexScript, same, clampIndex(index)), nil
}

// errUnlessEmpty is for a fault with an argument that Redis finds only if there is a list: an empty one has another error, or
// gives nil.
func errUnlessEmpty(l *ShardedList, fault, empty error) *translation {
	return reading(l, llenScript, func(length any) (any, error) {
		if length == int64(0) {
			return nil, empty
		}
		return nil, fault
	})
}

// writing is the translation of a command into one operation.
func writing(l *ShardedList, o operation) *translation { return &translation{steps: []step{{l, o}}} }

func pushXOnto(end side) func(context.Context, *invocation, []*ShardedList) (*translation, error) {
	return func(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
		values, err := encodeEach(c.args[2:])
		if err != nil {
			return nil, err
		}
		return writing(lists[0], lists[0].pushXOperation(end, values)), nil
	}
}

func translateLSet(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	index, err := c.integer(2)
	if err != nil {
		return errUnlessEmpty(lists[0], err, errNoSuchKey), nil
	}
	values, err := encodeEach(c.args[3:])
	if err != nil {
		return nil, err
	}
	return writing(lists[0], lists[0].setOperation(clampIndex(index), values[0])), nil
}

func translateLInsert(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	if !c.is(2, "before") && !c.is(2, "after") {
		return nil, errSyntax
	}
	values, err := encodeEach(c.args[3:])
	if err != nil {
		return nil, err
	}
	return writing(lists[0], lists[0].insertOperation(c.text(2), values[0], values[1])), nil
}

func translateLRem(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	count, err := c.integer(2)
	if err != nil {
		return nil, err
	}
	values, err := encodeEach(c.args[3:])
	if err != nil {
		return nil, err
	}
	return writing(lists[0], lists[0].remOperation(clampIndex(count), values[0])), nil
}

func translateLTrim(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	start, stop, err := c.span()
	if err != nil {
		return nil, err
	}
	t := writing(lists[0], lists[0].trimOperation(start, stop))
	t.reply = func([]any, any) (any, error) { return "OK", nil }
	t.after = func(ctx context.Context, replies []any) error {
		lists[0].sweep(ctx, replies[0])
		return nil
	}
	return t, nil
}

// translateLPos leaves the options to the script, which has the server judge them.
func translateLPos(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	return reading(lists[0], lposScript, same, c.args[2:]...), nil
}

// span reads the indices from where and to where.
func (c *invocation) span() (start, stop int64, err error) {
	if start, err = c.integer(2); err == nil {
		stop, err = c.integer(3)
	}
	return clampIndex(start), clampIndex(stop), err
}

// clampIndex makes an index small enough for Lua to count with.
func clampIndex(index int64) int64 { return max(-maxListLength, min(index, maxListLength)) }

func translateLRange(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	start, stop, err := c.span()
	if err != nil {
		return nil, err
	}
	return reading(lists[0], lrangeScript, func(reply any) (any, error) {
		return array(flatten(reply.([]any))), nil
	}, start, stop), nil
}

// timeout reads a number of seconds.
func (c *invocation) timeout(i int) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(c.text(i), 64)
	switch {
	case err != nil || math.IsNaN(seconds) || math.IsInf(seconds, 0):
		return 0, replyError("ERR timeout is not a float or out of range")
	case seconds < 0:
		return 0, replyError("ERR timeout is negative")
	case seconds > math.MaxInt64/1e9:
		return 0, replyError("ERR timeout is out of range")
	}
	return time.Duration(math.Ceil(seconds*1000)) * time.Millisecond, nil
}

// unguarded gives one script to each list, which does not mind what is at the key that the list stands in for.
func unguarded(lists []*ShardedList, script *script) (steps []step) {
	for _, l := range lists {
		steps = append(steps, step{l, operation{script: script, args: scriptCall(script, l.scriptKeys[:1], nil)}})
	}
	return steps
}

// counted adds up how many lists there were, and how many plain keys.
func counted(replies []any, plain any) (any, error) {
	total, _ := plain.(int64)
	for _, reply := range replies {
		if reply.(int64) > 0 {
			total++
		}
	}
	return total, nil
}

func translateExists(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	return &translation{
		steps: unguarded(lists, llenScript),
		plain: c.args,
		reply: counted,
		served: func(replies []any) bool {
			total, _ := counted(replies, nil)
			return total == int64(len(c.args)-1)
		},
	}, nil
}

func translateDel(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	existed := func(replies []any) []any {
		flags := make([]any, len(replies))
		for i, reply := range replies {
			flags[i] = reply.([]any)[0]
		}
		return flags
	}
	return &translation{
		steps: unguarded(lists, delScript),
		plain: c.args,
		served: func(replies []any) bool {
			total, _ := counted(existed(replies), nil)
			return total == int64(len(c.args)-1)
		},
		reply: func(replies []any, plain any) (any, error) { return counted(existed(replies), plain) },
		after: func(ctx context.Context, replies []any) error {
			for i, l := range lists {
				l.sweep(ctx, replies[i].([]any)[1])
			}
			return nil
		},
	}, nil
}

func translateType(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	return &translation{
		steps:  unguarded(lists, llenScript),
		plain:  c.args,
		served: func(replies []any) bool { return replies[0].(int64) > 0 },
		reply: func(replies []any, plain any) (any, error) {
			if replies[0].(int64) > 0 {
				return "list", nil
			}
			return plain, nil
		},
	}, nil
}

func translateOther(ctx context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	steps := unguarded(lists, llenScript)
	length, err := steps[0].run(ctx)
	if err == nil && length.(int64) > 0 {
		err = errWrongType
	}
	return nil, err
}

func translateObject(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	l := lists[0]
	return &translation{
		steps:  []step{{l, operation{script: objectScript, args: scriptCall(objectScript, l.scriptKeys[:1], []any{c.text(1)})}}},
		plain:  c.args,
		served: func(replies []any) bool { return replies[0] != nil },
		reply: func(replies []any, plain any) (any, error) {
			if replies[0] != nil {
				return replies[0], nil
			}
			return plain, nil
		},
	}, nil
}

// translateMemory answers MEMORY USAGE as Info does, before the rest of a pipeline is sent.
func translateMemory(ctx context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	if !c.is(1, "usage") {
		return nil, nil
	}
	info, err := lists[0].Info(ctx)
	if err != nil || info.Length == 0 {
		return nil, err
	}
	return &translation{reply: func([]any, any) (any, error) { return info.Bytes, nil }}, nil
}
