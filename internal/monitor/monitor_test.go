package monitor_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/monitor"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m).Run() }

// All commands up to the end are told, those of scripts too, with any bytes.
func TestWatch(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			ctx, rdb := t.Context(), server.Client(t)
			before, err := rdb.Time(ctx).Result()
			require.NoError(t, err)
			var seen []monitor.Command
			stop, err := monitor.Watch(server.Addr(), func(c monitor.Command) {
				if len(c.Args) == 3 && c.Args[1] != "SETINFO" && c.Args[1] != "setinfo" {
					seen = append(seen, c)
				}
			})
			require.NoError(t, err)
			var bytes []byte
			for b := range 256 {
				bytes = append(bytes, byte(b))
			}
			require.NoError(t, rdb.Set(ctx, "key", bytes, 0).Err())
			require.NoError(t, rdb.Eval(ctx, "return redis.call('SET', 'key', '1')", []string{}).Err())
			require.NoError(t, stop())
			require.NoError(t, rdb.Set(ctx, "key", "after the end", 0).Err())
			after, err := rdb.Time(ctx).Result()
			require.NoError(t, err)
			require.Len(t, seen, 3)
			assert.Equal(t, []string{"set", "key", string(bytes)}, seen[0].Args)
			assert.False(t, seen[0].InScript)
			assert.Equal(t, []string{"eval", "return redis.call('SET', 'key', '1')", "0"}, seen[1].Args)
			assert.Equal(t, []string{"SET", "key", "1"}, seen[2].Args)
			assert.True(t, seen[2].InScript)
			for _, c := range seen {
				assert.GreaterOrEqual(t, c.At, float64(before.UnixMicro())/1e6)
				assert.LessOrEqual(t, c.At, float64(after.UnixMicro())/1e6)
			}
		})
	}
}
