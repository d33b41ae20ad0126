package commands

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tiny makes shards by size so small that elements of a few bytes fill them.
var tiny = []string{
	"local SHARD_BYTES = 131072", "local SHARD_BYTES = 60", "local LEAST, MOST = 16, 8192", "local LEAST, MOST = 2, 12",
	"local SHARD_LIMIT = 786432", "local SHARD_LIMIT = 120", "redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', 0)", "nil",
}

// Whatever the sequence of operations, a list whose elements change their size is the list that Redis has.
func TestModelOfElementsThatChangeTheirSize(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Embedded) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb, other := redistest.Shared(t, kind).Client(t), redistest.Shared(t, kind).Client(t)
			for _, client := range []redis.UniversalClient{rdb, other} {
				client.AddHook(harness.NewRewriter(tiny...))
			}
			steps, most := 0, 0
			for seed := range uint64(redistest.Times(5, 10)) {
				random := rand.New(rand.NewPCG(seed, 2))
				m := harness.NewModel(t, []redis.UniversalClient{rdb, other}, 0)
				for range 150 {
					m.Pad = strings.Repeat("-", random.IntN(5)*random.IntN(15))
					operation := []int{0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 6, 7, 10, 11, 12 + random.IntN(harness.Edits)}[random.IntN(15)]
					m.Step(m.Handles[random.IntN(2)], byte(operation), 1+random.IntN(11), random.Int64N(60)-30)
					if caps := rdb.HGet(t.Context(), harness.Keys(m.Handles[0]).Meta, "caps").Val(); caps != "" {
						steps, most = steps+1, max(most, strings.Count(caps, ":"))
					}
				}
				rdb.Del(t.Context(), m.Plain)
				_, err := m.Handles[0].Del(t.Context())
				require.NoError(t, err)
			}
			t.Logf("steps in %d, up to %d", steps, most)
			assert.Greater(t, steps, 100, "operations on lists whose capacities differ")
			assert.Greater(t, most, 3)
		})
	}
}

// No shard has more than 1 MiB, unless it has no more than 16 elements, whichever way its elements come, and however their size changes.
func TestShardsStaySmallWhenElementsGrow(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list, source := growing(t, rdb)
		sizes := largest(t, rdb, list, source)
		assert.LessOrEqual(t, sizes.bytes, int64(1<<20), "of a shard of more than 16 elements")
		assert.Greater(t, sizes.shards, 60)
		assert.Less(t, sizes.shards, 400, "when elements are small again, shards are long again")
	})
	t.Run("without the rule", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Start(t, redistest.Redis).Client(t)
		rdb.AddHook(harness.NewRewriter("return cap > LEAST and cap * bytes > SHARD_LIMIT * (how < 0 and 4 or 1)", "return false"))
		list, source := growing(t, rdb)
		assert.Greater(t, largest(t, rdb, list, source).bytes, int64(1<<20))
	})
}

func growing(t *testing.T, rdb redis.UniversalClient) (list, source *shardedlist.ShardedList) {
	tag := "{" + harness.UniqueName(t) + "}"
	return harness.OpenList(t, rdb, tag+"list"), harness.OpenList(t, rdb, tag+"source")
}

type shardSizes struct {
	bytes  int64 // of the largest of more than 16 elements
	shards int
}

// largest pushes elements of many sizes, and returns what became of the shards.
func largest(t *testing.T, rdb redis.UniversalClient, list, source *shardedlist.ShardedList) (sizes shardSizes) {
	var want []string
	element := func(size int) string { return strconv.Itoa(len(want)) + strings.Repeat("x", size) }
	push := func(number, size int, alone bool) {
		for number > 0 {
			var values []any
			for range min(number, 250) {
				want = append(want, element(size))
				values = append(values, want[len(want)-1])
			}
			number -= len(values)
			if !alone {
				_, err := list.RPush(t.Context(), values...)
				require.NoError(t, err)
				continue
			}
			for _, value := range values {
				_, err := list.RPush(t.Context(), value)
				require.NoError(t, err)
			}
		}
	}
	push(10_000, 10, false)
	push(2000, 2000, true)
	push(500, 20_000, false)
	push(50, 100_000, false)
	push(10_000, 10, false)
	for range 500 {
		want = append([]string{element(5000)}, want...)
		_, err := list.LPush(t.Context(), want[0])
		require.NoError(t, err)
	}
	for range 300 {
		want = append(want, element(9000))
		_, err := source.RPush(t.Context(), want[len(want)-1])
		require.NoError(t, err)
		_, err = source.LMove(t.Context(), list, "LEFT", "RIGHT")
		require.NoError(t, err)
	}
	assert.Equal(t, len(want), len(harness.Content(t, list)))
	assert.Equal(t, want, harness.Content(t, list))
	for _, at := range []int{0, 499, 500, 9000, 10_501, 11_900, 12_800, 13_000, 15_000, len(want) - 1} {
		assert.Equal(t, want[at], must(list.LIndex(t.Context(), int64(at))), at)
		assert.Equal(t, want[at], must(list.LIndex(t.Context(), int64(at-len(want)))), at)
	}
	assert.Equal(t, want[400:13_000], must(list.LRange(t.Context(), 400, 12_999)))
	require.NoError(t, list.Check(t.Context()))
	info := must(list.Info(t.Context()))
	for id := info.First; id <= info.Last; id++ {
		key := harness.Shard(list, t.Context(), id)
		elements := must(rdb.LRange(t.Context(), key, 0, -1).Result())
		bytes, err := rdb.MemoryUsage(t.Context(), key, 0).Result()
		if err != nil { // the embedded server does not tell
			bytes = int64(len(strings.Join(elements, "")))
		}
		if len(elements) > 16 {
			sizes.bytes = max(sizes.bytes, bytes)
		}
		sizes.shards++
	}
	t.Logf("%d shards, the largest has %d bytes; %s", sizes.shards, sizes.bytes, rdb.HGet(t.Context(), harness.Keys(list).Meta, "caps").Val())
	for len(want) > 0 {
		popped := must(list.LPopCount(t.Context(), min(2000, len(want))))
		require.Equal(t, want[:len(popped)], popped)
		want = want[len(popped):]
	}
	assert.Zero(t, must(list.LLen(t.Context())))
	return sizes
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(fmt.Sprint("a call failed: ", err))
	}
	return value
}
