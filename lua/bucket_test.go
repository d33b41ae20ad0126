package lua

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// model is a token bucket that counts tokens with fractions of any precision, and does not know of arrival times.
type model struct {
	tokens, perMicrosecond *big.Rat
	burst                  int64
	now                    int64
}

func newModel(now, rate, per, burst int64) *model {
	return &model{big.NewRat(burst, 1), big.NewRat(rate, per), burst, now}
}

func (m *model) at(now int64) {
	gain := new(big.Rat).Mul(m.perMicrosecond, big.NewRat(now-m.now, 1))
	m.now = now
	if m.tokens.Add(m.tokens, gain); m.tokens.Cmp(big.NewRat(m.burst, 1)) > 0 {
		m.tokens.SetInt64(m.burst)
	}
}

// whole returns the whole tokens of a number, or 0 of a debt.
func whole(tokens *big.Rat) int64 {
	if tokens.Sign() < 0 {
		return 0
	}
	return new(big.Int).Quo(tokens.Num(), tokens.Denom()).Int64()
}

// next returns the first whole microsecond at which n tokens are there.
func (m *model) next(n int64) int64 {
	missing := new(big.Rat).Sub(big.NewRat(n, 1), m.tokens)
	if missing.Sign() <= 0 {
		return m.now
	}
	wait := missing.Quo(missing, m.perMicrosecond)
	quotient, rest := new(big.Int).QuoRem(wait.Num(), wait.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return m.now + quotient.Int64()
}

// bucketCase is a sequence of takes.
type bucketCase struct {
	now, rate, per, burst int64
	steps                 []bucketStep
}

type bucketStep struct{ pause, n int64 }

// check compares the arithmetic of shared/bucket.lua with the model. It may give less, by what it rounds up, and never more.
func (c bucketCase) check(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	script := textOf(t, "shared/bucket") + `
		local tat, replies, interval, burst = nil, {}, ARGV[2] / ARGV[1], tonumber(ARGV[3])
		for i = 4, #ARGV, 2 do
			local now, n = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
			local next = bucket_next(tat, now, interval, burst, n)
			local step = { bucket_tokens(tat, now, interval, burst), next }
			step[3] = bucket_tokens(tat, next, interval, burst)
			step[4] = next > now and bucket_tokens(tat, next - 1, interval, burst) or -1
			tat = bucket_take(tat, now, interval, burst, n)
			replies[#replies + 1] = string.format('%.0f %.0f %.0f %.0f', unpack(step))
		end
		return replies`
	args, now := []any{c.rate, c.per, c.burst}, c.now
	for _, step := range c.steps {
		now += step.pause
		args = append(args, now, step.n)
	}
	replies, err := rdb.Eval(context.Background(), script, []string{"bucket"}, args...).StringSlice()
	require.NoError(t, err)
	require.Len(t, replies, len(c.steps))
	m := newModel(c.now, c.rate, c.per, c.burst)
	for i, step := range c.steps {
		m.at(m.now + step.pause)
		var tokens, next, then, before int64
		_, err := fmt.Sscan(replies[i], &tokens, &next, &then, &before)
		require.NoError(t, err)
		rounded := int64(i)/4 + 2 // microseconds
		late := new(big.Rat).Sub(m.tokens, new(big.Rat).Mul(m.perMicrosecond, big.NewRat(rounded, 1)))
		require.LessOrEqual(t, tokens, whole(m.tokens), "%+v, step %d", c, i)
		require.GreaterOrEqual(t, tokens, whole(late), "%+v, step %d", c, i)
		require.GreaterOrEqual(t, next, m.next(step.n), "%+v, step %d", c, i)
		require.LessOrEqual(t, next, m.next(step.n)+rounded, "%+v, step %d", c, i)
		require.GreaterOrEqual(t, then, step.n, "%+v, step %d: what was announced is there", c, i)
		require.Less(t, before, step.n, "%+v, step %d: and not before", c, i)
		m.tokens.Sub(m.tokens, big.NewRat(step.n, 1))
	}
}

func randomBucketCase(rng *rand.Rand) bucketCase {
	c := bucketCase{now: 1_700_000_000_000_000 + rng.Int64N(5e14), burst: 1 + rng.Int64N(1+rng.Int64N(100))}
	c.per = 1000 * (1 + rng.Int64N(1+rng.Int64N(10_000_000)))
	c.rate = 1 + rng.Int64N(min(c.per, 1+rng.Int64N(100_000)))
	for range 40 {
		pause := rng.Int64N(1 + 3*c.per/c.rate)
		switch rng.IntN(4) {
		case 0:
			pause = 0
		case 1:
			pause = c.per / c.rate * (1 + rng.Int64N(3))
		}
		c.steps = append(c.steps, bucketStep{pause, 1 + rng.Int64N(c.burst)})
	}
	return c
}

// The arithmetic agrees with a model that counts tokens, debts included.
func TestBucketAgreesWithAModel(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 1))
		for range 500 {
			randomBucketCase(rng).check(t, rdb)
			require.False(t, t.Failed(), "seed %d", seed)
		}
	})
}

// A steady stream of one token at a time loses a quarter of a microsecond a token at most, and gains none.
func TestBucketKeepsItsRate(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Redis).Client(t)
	for _, rate := range []int64{3, 7, 1000, 999, 30_000, 1_000_000} {
		script := textOf(t, "shared/bucket") + `
			local start, interval, tat = 1770000000000000, 1000000 / ARGV[1], nil
			for _ = 1, 10000 do
				tat = bucket_take(tat, start, interval, 1, 1)
			end
			return string.format('%.2f', tat - start)`
		took, err := rdb.Eval(context.Background(), script, []string{"bucket"}, rate).Float64()
		require.NoError(t, err)
		exact := 1e10 / float64(rate)
		assert.GreaterOrEqual(t, took, exact-1e-3, rate)
		assert.LessOrEqual(t, took, exact+2500, rate)
	}
}

// The tokens that there are, and the times at which there are more, agree for every rate, where a division alone would not.
func TestBucketTokensAgreeWithTimes(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Redis).Client(t)
	script := textOf(t, "shared/bucket") + `
		local now, wrong, by_division = 1770000000000000, 0, 0
		for rate = 1, 2000 do
			local interval, burst = 1000000 / rate, 2 * rate
			for n = 1, burst, math.max(1, math.floor(rate / 50)) do
				local tat = now + n * interval
				local tokens = bucket_tokens(tat, now, interval, burst)
				if tokens > 0 and bucket_next(tat, now, interval, burst, tokens) > now
					or tokens < burst and bucket_next(tat, now, interval, burst, tokens + 1) == now then
					wrong = wrong + 1
				end
				if tokens ~= math.floor(burst - (tat - now) / interval) then
					by_division = by_division + 1
				end
			end
		end
		return { wrong, by_division }`
	got, err := rdb.Eval(context.Background(), script, []string{"bucket"}).Int64Slice()
	require.NoError(t, err)
	assert.Zero(t, got[0])
	t.Logf("%d by a division alone", got[1])
}

func FuzzBucket(f *testing.F) {
	rdb := redistest.Start(f, redistest.Embedded).Client(f)
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		randomBucketCase(rand.New(rand.NewPCG(a, b))).check(t, rdb)
	})
}
