package limit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
)

const (
	// minSpan is the shortest window, and the shortest time in which the tokens of a rate come in.
	minSpan = time.Millisecond
	// maxSpan is the longest time that a limiter counts with. Microseconds until then are exact in a script.
	maxSpan = 10 * 365 * 24 * time.Hour
)

// Decision is what a limiter has decided.
type Decision struct {
	// Allowed reports whether the call was admitted, and counted.
	Allowed bool
	// Remaining is how much more would be admitted now.
	Remaining int64
	// RetryAfter is how long from now the call would be admitted if nobody else came. It is 0 if the call was.
	RetryAfter time.Duration
	// At is the time of the decision by the server's clock, in microseconds. Windows and days are counted by it.
	At time.Time
}

// limiter is what all kinds have: a name, keys, and a way to run scripts on them.
type limiter struct {
	name   string
	kind   string // in errors
	prefix string // of the keys
	runner *script.Runner
	list   *stats.List // what those who trace commands are told that they are for
}

// newLimiter returns ErrLimit if there is no client or no name.
func newLimiter(rdb redis.UniversalClient, name, kind string) (*limiter, error) {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return nil, invalid("the client is nil")
	}
	if name == "" {
		return nil, invalid("the name is empty")
	}
	prefix := oneslot.KeysOf(name).Prefix + kind + "/"
	return &limiter{name: name, kind: kind, prefix: prefix, runner: &script.Runner{Client: rdb}, list: stats.NewList(name)}, nil
}

// state is the key that holds all of the limiter's state. No list has a key of this form, which ends in no word after a colon.
func (l *limiter) state() string { return l.prefix + "meta" }

// wrap adds the operation and the name to an error.
func (l *limiter) wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("limit: %s of %s %q: %w", operation, l.kind, l.name, err)
}

// counter is a limiter whose calls would count twice if they ran twice.
type counter struct {
	*limiter
	sessions *session.Pool
	declared []any // the key that scripts get
}

func newCounter(rdb redis.UniversalClient, name, kind string) (*counter, error) {
	l, err := newLimiter(rdb, name, kind)
	if err != nil {
		return nil, err
	}
	return &counter{l, &session.Pool{Runner: l.runner, List: l.list, InMeta: true}, []any{l.state()}}, nil
}

// operation returns an operation that is applied once.
func (c *counter) operation(s *script.Script, args ...any) session.Operation {
	op := c.sessions.Operation(s, c.declared, len(args))
	op.Append(args...)
	return op
}

// decide runs an operation whose reply is a verdict, see verdict in lua/shared/limit.lua.
func (c *counter) decide(ctx context.Context, op session.Operation) (Decision, error) {
	reply, err := op.Run(ctx)
	if err != nil {
		return Decision{}, orEnded(ctx, err)
	}
	decision, _, err := readVerdict(reply)
	return decision, err
}

// readVerdict reads a verdict, and the words behind it, which give back what was taken.
func readVerdict(reply any) (Decision, []any, error) {
	text, _ := reply.(string)
	words := strings.Fields(text)
	if len(words) < 4 {
		return Decision{}, nil, fmt.Errorf("a reply of an unknown form: %v", reply)
	}
	var numbers [4]int64
	for i := range numbers {
		number, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			return Decision{}, nil, fmt.Errorf("a reply of an unknown form: %w", err)
		}
		numbers[i] = number
	}
	rest := make([]any, 0, 3)
	for _, word := range words[4:] {
		rest = append(rest, word)
	}
	return Decision{
		Allowed:    numbers[0] == 1,
		Remaining:  numbers[1],
		RetryAfter: time.Duration(numbers[2]) * time.Microsecond,
		At:         time.UnixMicro(numbers[3]),
	}, rest, nil
}

// checkSpan returns ErrLimit for a span that is too short or too long.
func checkSpan(span time.Duration) error {
	if span < minSpan || span > maxSpan {
		return invalid("a span of %v is not within %v and %v", span, minSpan, maxSpan)
	}
	return nil
}

// checkNumber returns ErrLimit for a number that is below 1, or above what can ever be admitted.
func checkNumber(n, most int64) error {
	if n < 1 || n > most {
		return invalid("%d is not within 1 and %d", n, most)
	}
	return nil
}

// maxNumber is the highest limit: a script is exact up to twice as much.
const maxNumber = 1 << 52

// promptly runs do, and leaves it to itself if ctx ends and do does not return within the grace that sessions have. late
// receives what it came to.
func promptly[T any](ctx context.Context, do func(ctx context.Context) (T, error), late func(T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if ctx.Done() == nil {
		return do(ctx)
	}
	got := make(chan result, 1)
	go func() {
		value, err := do(ctx)
		got <- result{value, err}
	}()
	select {
	case r := <-got:
		return r.value, r.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(session.LeaveGrace)
	defer grace.Stop()
	select {
	case r := <-got:
		return r.value, r.err
	case <-grace.C:
	}
	go func() {
		r := <-got
		late(r.value, r.err)
	}()
	return none, ctx.Err()
}

// maxReconnects is how often a call is repeated that was not sent, since there was no connection.
const maxReconnects = 3

// repeat sends a call that may run twice until it is answered. It reports whether a copy, whose reply was lost, may have been
// applied before.
func (l *limiter) repeat(ctx context.Context, call script.Call) (reply any, repeated bool, err error) {
	call.List = l.list
	repeated, err = untilAnswered(ctx, func() (err error) {
		reply, err = l.runner.Once(ctx, call)
		return err
	})
	return reply, repeated, err
}

// untilAnswered is repeat for whatever send sends.
func untilAnswered(ctx context.Context, send func() error) (repeated bool, err error) {
	until, unsent := script.Deadline(ctx), 0
	for attempt := 0; ; attempt++ {
		err = send()
		switch {
		case err == nil || script.IsReply(err) && !script.IsTransient(err):
			return repeated, err
		case errors.Is(err, redis.ErrClosed) || ctx.Err() != nil:
			return true, orEnded(ctx, err)
		case script.MayHaveActed(err):
			repeated = true
		case !script.IsReply(err):
			unsent++
		}
		pause := script.PauseAfter(err, attempt)
		if unsent > maxReconnects || time.Until(until) < pause || script.Sleep(ctx, pause) != nil {
			return repeated, orEnded(ctx, err)
		}
	}
}

// orEnded adds the error of ctx to that of a call, if ctx has ended: the call was not repeated because of that.
func orEnded(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}
