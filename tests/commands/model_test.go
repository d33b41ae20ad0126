package commands

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The sharded list against two oracles, the deque of internal/history and a plain Redis list on the same server: whatever the sequence of
// operations, and whichever client runs them, all three give the same results.
func TestModel(t *testing.T) {
	t.Parallel()
	steps, seeds := redistest.Times(60, 100), redistest.Times(1, 2)
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for seed := range uint64(seeds) {
			random := rand.New(rand.NewPCG(seed, 0))
			tape := make([]byte, steps*4)
			for i := range tape {
				tape[i] = byte(random.Uint32())
			}
			for _, capacity := range []int{1, 2, 3, 7} {
				harness.RunModel(t, []redis.UniversalClient{server.Client(t), server.Client(t)}, capacity, tape)
			}
		}
	})
}

// Steps that move fewer elements than a shard holds: three, of this size.
func TestModelOfLargeElements(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		if kind == redistest.Cluster && !redistest.Long() {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb, seeds, parts := redistest.Shared(t, kind).Client(t), redistest.Times(1, 4), 0
			for seed := range uint64(seeds) {
				random := rand.New(rand.NewPCG(seed, 1))
				m := harness.NewModel(t, []redis.UniversalClient{rdb, rdb}, 4+int(seed)%3)
				m.Pad = strings.Repeat("-", 80_000)
				m.Push(m.Handles[0].RPush, rdb.RPush, m.Fresh(40))
				m.Values = rdb.LRange(t.Context(), m.Plain, 0, -1).Val()
				for range 60 {
					operation := []int{0, 2, 4, 5, 6, 7, 11, 11, 11, 12 + random.IntN(harness.Edits)}[random.IntN(10)]
					m.Step(m.Handles[random.IntN(2)], byte(operation), random.IntN(12), random.Int64N(60)-30)
					if rdb.HExists(t.Context(), harness.Keys(m.Handles[0]).Meta, "part").Val() {
						parts++
					}
				}
				rdb.Del(t.Context(), m.Plain)
			}
			assert.Greater(t, parts, 5*seeds, "shards of which a step has moved only some elements")
		})
	}
}

// LINSERT is wrong on lists of a capacity that no other test has. So many inputs find it as CI tries.
func TestFuzzingFindsABrokenScript(t *testing.T) {
	redistest.LongOnly(t)
	redistest.Shared(t, redistest.Redis) // is installed: the embedded server is slow
	require.NoDirExists(t, "../../testdata/fuzz", "go test writes the input there")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-run", "^$", "-fuzz", "^FuzzOperations$", "-fuzztime", "3000x", "-fuzzminimizetime", "1x", ".",
		"-test.fuzzcachedir", t.TempDir())
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), harness.BreakScript+"=1")
	output, err := cmd.CombinedOutput()
	t.Cleanup(func() { _ = os.RemoveAll("../../testdata/fuzz") })
	require.Error(t, err)
	assert.Contains(t, string(output), "--- FAIL: FuzzOperations", "%s", output)
	t.Logf("%s", output)
}
