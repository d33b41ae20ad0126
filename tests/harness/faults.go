package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FaultOperations is how many operations each fault test does at least.
func FaultOperations() int { return redistest.Times(600, 2000) }

// FaultPatience is how long the traffic of a fault test may take, and the fault to strike. It is short where the tests are to fail.
func FaultPatience() time.Duration {
	if os.Getenv(redistest.FaultsVariable) != "" {
		return 3 * time.Second
	}
	return 5 * time.Minute
}

// Through connects a client by way of the proxy.
func Through(proxy *redistest.Proxy) func(*redis.UniversalOptions) {
	return func(o *redis.UniversalOptions) {
		o.Dialer = proxy.Dial
		o.ReadTimeout = time.Second
	}
}

var Faults = map[string]redistest.Faults{
	"1% of replies":        {CutReply: 0.01},
	"10% of replies":       {CutReply: 0.1},
	"50% of replies":       {CutReply: 0.5},
	"10% of requests":      {CutRequest: 0.1},
	"10% within the reply": {CutInReply: 0.1},
	"late requests":        {LateRequest: 0.002, Delay: 1500 * time.Millisecond},
	"everything":           {CutReply: 0.03, CutInReply: 0.03, CutRequest: 0.03, LateRequest: 0.0005, Delay: 1500 * time.Millisecond},
}

// Ends are the ways to push and pop at one end each, so that what goes in at one end comes out at the other in order.
var Ends = map[string]struct {
	Push func(*shardedlist.ShardedList, context.Context, ...any) (int64, error)
	Pop  func(*shardedlist.ShardedList, context.Context, int) ([]string, error)
}{
	"RPush LPop": {(*shardedlist.ShardedList).RPush, func(l *shardedlist.ShardedList, ctx context.Context, _ int) ([]string, error) {
		return Single(l.LPop(ctx))
	}},
	"LPush RPop": {(*shardedlist.ShardedList).LPush, func(l *shardedlist.ShardedList, ctx context.Context, _ int) ([]string, error) {
		return Single(l.RPop(ctx))
	}},
	"RPush LPopCount": {(*shardedlist.ShardedList).RPush, func(l *shardedlist.ShardedList, ctx context.Context, i int) ([]string, error) {
		return l.LPopCount(ctx, 1+i%7)
	}},
	"RPush BLPop": {(*shardedlist.ShardedList).RPush, func(l *shardedlist.ShardedList, ctx context.Context, _ int) ([]string, error) {
		return Single(l.BLPop(ctx, 100*time.Millisecond))
	}},
	"LPush BRPop, mixed": {(*shardedlist.ShardedList).LPush, func(l *shardedlist.ShardedList, ctx context.Context, i int) ([]string, error) {
		switch i % 3 {
		case 0:
			return l.RPopCount(ctx, 3)
		case 1:
			return Single(l.RPop(ctx))
		}
		return Single(l.BRPop(ctx, 100*time.Millisecond))
	}},
}

func Single(value string, err error) ([]string, error) {
	if !script.IsDone(err) {
		return nil, err
	}
	return []string{value}, err
}

// Traffic is producers that push to lists and consumers that pop from them, and the ledger of what they did.
type Traffic struct {
	ledger.Ledger
	workers int // producers, and as many consumers
}

func NewTraffic(workers int) *Traffic { return &Traffic{workers: workers} }

// Strikes reports whether faults of the proxy have struck.
func Strikes(proxy *redistest.Proxy) (struck func() bool) {
	return func() bool { return proxy.Strikes() > 0 }
}

// Run lets the producers push until the fault has struck, that many operations at least, and the consumers pop until the list stays
// empty after the last push.
func (y *Traffic) Run(t *testing.T, operations int, struck func() bool, push func(context.Context, string) error, pop func(context.Context, int) ([]string, error)) {
	each := operations / 2 / y.workers
	ctx, cancel := context.WithTimeout(t.Context(), FaultPatience())
	defer cancel()
	var producers, consumers sync.WaitGroup
	var producing atomic.Bool
	producing.Store(true)
	for p := range y.workers {
		producers.Go(func() {
			for i := 0; (i < each || !struck()) && ctx.Err() == nil; i++ {
				value, fate := ledger.Name(p, i), ledger.Done
				if err := push(ctx, value); errors.Is(err, shardedlist.ErrOutcomeUnknown) {
					fate = ledger.Unknown
				} else if err != nil {
					fate = ledger.Refused
					t.Logf("push of %s: %v", value, err)
				}
				y.Push(ledger.Pushed{Producer: p, First: i, Count: 1, Fate: fate})
			}
		})
		consumers.Go(func() {
			for i, empty := 0, 0; empty < 3 && ctx.Err() == nil; i++ {
				last := !producing.Load()
				values, err := pop(ctx, i)
				y.PopValues(p, values...)
				if err == nil || !last {
					empty = 0
				} else if err == redis.Nil {
					empty++
				}
			}
		})
	}
	producers.Wait()
	producing.Store(false)
	consumers.Wait()
	assert.True(t, struck(), "the fault has not struck")
}

// AwaitPushes waits until a number of pushes has been acknowledged.
func (y *Traffic) AwaitPushes(number int) {
	end := time.Now().Add(FaultPatience())
	for pushed, _ := y.Counts(); pushed < number && time.Now().Before(end); pushed, _ = y.Counts() {
		time.Sleep(time.Millisecond)
	}
}

// AssertOnce checks that each element that was pushed came out once, and that most were pushed and popped.
func (y *Traffic) AssertOnce(t *testing.T) ledger.Tally {
	t.Helper()
	assert.NoError(t, y.Evidence())
	tally := y.Tally()
	assert.Zero(t, tally.Doubled, "doubled: %s", tally.Example)
	assert.Zero(t, tally.Invented, "invented: %s", tally.Example)
	assert.Zero(t, tally.Lost, "lost: %s", tally.Example)
	return tally
}

// AssertOnceInOrder checks that each element that was pushed came out once, each producer's in order; unless a client has put elements back,
// since callers whose time was up had taken them.
func (y *Traffic) AssertOnceInOrder(t *testing.T, clients ...*shardedlist.ShardedList) {
	t.Helper()
	tally, back := y.AssertOnce(t), int64(0)
	for _, c := range clients {
		back += c.Stats().PutBack
	}
	if back > 0 {
		t.Logf("%d elements went back, and %d are out of order", back, tally.Misplaced)
		return
	}
	assert.Zero(t, tally.Misplaced, "out of order")
}

// Scripts are those that the library sends. fault stands between them and the server, to which they may get after their context has ended.
type Scripts struct {
	mu    sync.Mutex
	fault func(words string, send func() error) error
	words []string // of those that were sent since there is a fault
}

func (s *Scripts) Set(fault func(words string, send func() error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Sent tells whether a word was sent in a script.
func (s *Scripts) Sent(word string) bool { return s.Count(word) > 0 }

// Count returns in how many pipelines or lone scripts a word was sent.
func (s *Scripts) Count(word string) (number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, words := range s.words {
		if strings.Contains(words, word) {
			number++
		}
	}
	return number
}

func (s *Scripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *Scripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return s.Pass([]redis.Cmder{cmd}, func() error { return next(context.WithoutCancel(ctx), cmd) })
	}
}

func (s *Scripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return s.Pass(cmds, func() error { return next(context.WithoutCancel(ctx), cmds) })
	}
}

func (s *Scripts) Pass(cmds []redis.Cmder, send func() error) error {
	var words strings.Builder
	for _, cmd := range cmds {
		if args := cmd.Args(); redistest.IsCall(cmd.Name()) {
			fmt.Fprintln(&words, args[2:]...) // without the text of the script
		}
	}
	s.mu.Lock()
	fault := s.fault
	if fault != nil {
		s.words = append(s.words, words.String())
	}
	s.mu.Unlock()
	if fault == nil || !HasScripts(cmds) {
		return send()
	}
	passed := false
	err := fault(words.String(), func() error {
		passed = true
		return send()
	})
	if !passed {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	return err
}

// Interrupted runs do while the list's slot is marked as moving and nothing has moved, as a reshard leaves it that was interrupted.
// Then the slot moves.
func Interrupted(t *testing.T, server *redistest.Server, list *shardedlist.ShardedList, do func()) {
	t.Helper()
	slot := Keys(list).Slot()
	home, err := server.SlotOwner(t.Context(), slot)
	require.NoError(t, err)
	require.NoError(t, server.MoveSlot(t.Context(), slot, (home+1)%3, func(moved int) {
		if moved == 0 {
			do()
		}
	}))
}
