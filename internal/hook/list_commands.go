package hook

import (
	"context"
	"math"
	"math/big"
	"regexp"
	"strings"
	"time"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/value"
)

func pushAlone(end layout.End) func(context.Context, *invocation, []layout.List) (any, error) {
	return func(ctx context.Context, c *invocation, lists []layout.List) (any, error) {
		values, err := value.Spread(lists[0].Client(), c.args[2:])
		if err != nil {
			return nil, err
		}
		length, err := lists[0].Push(ctx, end, values)
		return length, err
	}
}

func joinPush(end layout.End) func(context.Context, *invocation, []layout.List) (*translation, error) {
	return func(ctx context.Context, c *invocation, lists []layout.List) (*translation, error) {
		l := lists[0]
		values, err := value.Spread(l.Client(), c.args[2:])
		if err != nil {
			return nil, err
		}
		if err := l.Prepare(ctx); err != nil {
			return nil, err
		}
		kind := l.Pushes(end)
		r := batch.NewRequest()
		r.Values, r.Count = values, len(values)
		for _, v := range values {
			r.Bytes += value.Size(v)
		}
		return &translation{joined: &joined{kind, r, func(r *batch.Request) any { return r.Length }}}, nil
	}
}

// popCount parses the count of a pop. It returns 1 and false if there is none.
func (c *invocation) popCount() (count int64, counted bool, err error) {
	switch len(c.args) {
	case 2:
		return 1, false, nil
	case 3:
		count, err = c.integer(2)
		if err != nil || count < 0 {
			return 0, true, rediserr.Positive
		}
		return count, true, nil
	}
	return 0, false, c.wrongNumber()
}

func popAlone(end layout.End) func(context.Context, *invocation, []layout.List) (any, error) {
	return func(ctx context.Context, c *invocation, lists []layout.List) (any, error) {
		count, counted, err := c.popCount()
		switch {
		case err != nil:
			return nil, err
		case count == 0:
			length, err := lists[0].Length().Run(ctx)
			if err != nil {
				return nil, err
			}
			return noElements(length)
		}
		values, err := lists[0].Pop(ctx, end, int(count))
		switch {
		case len(values) == 0:
			return nil, err
		case counted:
			return array(values), err
		}
		return values[0], err
	}
}

// noElements returns the reply of a pop with a count of 0.
func noElements(length any) (any, error) {
	if length == int64(0) {
		return nil, nil
	}
	return []any{}, nil
}

func joinPop(end layout.End) func(context.Context, *invocation, []layout.List) (*translation, error) {
	return func(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
		count, counted, err := c.popCount()
		if err != nil {
			return nil, err
		}
		if count == 0 {
			return singleThen(lists[0].Length(), noElements), nil
		}
		r := batch.NewRequest()
		r.Count = int(min(count, maxListLength))
		return &translation{joined: &joined{lists[0].Pops(end), r, func(r *batch.Request) any {
			switch {
			case len(r.Elements) == 0:
				return nil
			case counted:
				return array(r.Elements)
			}
			return r.Elements[0]
		}}}, nil
	}
}

// maxListLength is longer than any list, and small enough for Lua to count exactly.
const maxListLength = 1 << 52

func translateLLen(_ context.Context, _ *invocation, lists []layout.List) (*translation, error) {
	return single(lists[0].Length()), nil
}

func translateLIndex(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	index, err := c.integer(2)
	if err != nil {
		return errUnlessEmpty(lists[0], err, nil), nil
	}
	return single(lists[0].Index(clampIndex(index))), nil
}

// errUnlessEmpty is for an invalid argument that Redis reports only if there is a list. For an empty list it returns another
// error, or nil.
func errUnlessEmpty(l layout.List, fault, empty error) *translation {
	return singleThen(l.Length(), func(length any) (any, error) {
		if length == int64(0) {
			return nil, empty
		}
		return nil, fault
	})
}

func pushXOnto(end layout.End) func(context.Context, *invocation, []layout.List) (*translation, error) {
	return func(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
		values, err := value.Each(c.args[2:])
		if err != nil {
			return nil, err
		}
		return single(lists[0].PushX(end, values)), nil
	}
}

func translateLSet(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	index, err := c.integer(2)
	if err != nil {
		return errUnlessEmpty(lists[0], err, rediserr.NoSuchKey), nil
	}
	values, err := value.Each(c.args[3:])
	if err != nil {
		return nil, err
	}
	return single(lists[0].Set(clampIndex(index), values[0])), nil
}

func translateLInsert(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	if !c.is(2, "before") && !c.is(2, "after") {
		return nil, rediserr.Syntax
	}
	values, err := value.Each(c.args[3:])
	if err != nil {
		return nil, err
	}
	return single(lists[0].Insert(c.text(2), values[0], values[1])), nil
}

func translateLRem(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	count, err := c.integer(2)
	if err != nil {
		return nil, err
	}
	values, err := value.Each(c.args[3:])
	if err != nil {
		return nil, err
	}
	return single(lists[0].Remove(clampIndex(count), values[0])), nil
}

func translateLTrim(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	return c.overSpan(lists[0].Trim)
}

func translateLRange(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	t, err := c.overSpan(lists[0].Range)
	if err == nil {
		t.reply = func(results []any, _ any) (any, error) { return array(results[0].([]string)), nil }
	}
	return t, err
}

// overSpan translates a command whose arguments are a start and a stop index.
func (c *invocation) overSpan(operation func(start, stop any) session.Operation) (*translation, error) {
	start, err := c.integer(2)
	if err != nil {
		return nil, err
	}
	stop, err := c.integer(3)
	if err != nil {
		return nil, err
	}
	return single(operation(clampIndex(start), clampIndex(stop))), nil
}

// translateLPos passes the options to the script, which has the server check them.
func translateLPos(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	return single(lists[0].Positions(c.args[2:]...)), nil
}

// clampIndex makes an index small enough for Lua to count with.
func clampIndex(index int64) int64 { return max(-maxListLength, min(index, maxListLength)) }

// timeout parses a number of seconds.
func (c *invocation) timeout(i int) (time.Duration, error) {
	seconds, isNumber := longDouble(c.text(i))
	switch {
	case !isNumber:
		return 0, rediserr.Error("ERR timeout is not a float or out of range")
	case seconds*1000 >= 1<<63:
		return 0, rediserr.Error("ERR timeout is out of range") // Redis 7.0 takes some of these for negative ones
	case math.Ceil(seconds*1000) < 0:
		return 0, rediserr.Error("ERR timeout is negative")
	}
	milliseconds := int64(math.Ceil(seconds * 1000))
	switch {
	case milliseconds > math.MaxInt64-time.Now().UnixMilli():
		return 0, rediserr.Error("ERR timeout is out of range")
	case milliseconds > math.MaxInt64/int64(time.Millisecond): // 292 years
		return math.MaxInt64 / time.Millisecond * time.Millisecond, nil
	}
	return time.Duration(milliseconds) * time.Millisecond, nil
}

var (
	decimal     = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
	hexadecimal = regexp.MustCompile(`^[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)([pP][+-]?[0-9]+)?$`)
	infinite    = regexp.MustCompile(`^[+-]?(?i:inf|infinity)$`)
)

// longDouble reads a number as Redis does with C's strtold, whose range is wider than that of a float64: beyond that, a number is infinite
// here.
func longDouble(text string) (n float64, ok bool) {
	const least, most = -16446, 16384 // the exponents, to the base of 2, that a long double has
	switch {
	case infinite.MatchString(text):
		return math.Inf(2*strings.Count(text, "-")*-1 + 1), true
	case hexadecimal.MatchString(text):
		if !strings.ContainsAny(text, "pP") {
			text += "p0"
		}
	case !decimal.MatchString(text):
		return 0, false
	}
	number, _, err := big.ParseFloat(text, 0, 64, big.ToNearestEven)
	if err != nil {
		return 0, false
	}
	n, _ = number.Float64()
	exponent := number.MantExp(nil)
	return n, number.Sign() == 0 || exponent >= least && exponent <= most
}
