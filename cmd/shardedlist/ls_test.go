package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/queue"
)

func TestLs(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Sentinel) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t, kind)
			ctx, rdb, tag := t.Context(), server.Client(t), "ls-"+uuid.NewString()+":"
			ls := func(args ...string) result {
				return <-start(ctx, nil, append([]string{"--redis", server.URL(), "ls"}, args...)...)
			}
			push := func(name string, elements int, options ...shardedlist.Option) *shardedlist.ShardedList {
				list, err := shardedlist.New(rdb, tag+name, options...)
				require.NoError(t, err)
				_, err = list.RPush(ctx, make([]string, elements))
				require.NoError(t, err)
				return list
			}
			assert.Equal(t, result{code: exitNothing}, ls(tag+"*"))

			push("one", 1)
			push("many", 1234, shardedlist.WithCapacity(10))
			push("spread", 50, shardedlist.WithParts(3), shardedlist.WithCapacity(10))
			expiring := push("odd\n\"name\"", 2)
			_, err := expiring.Expire(ctx, time.Hour)
			require.NoError(t, err)
			require.NoError(t, rdb.RPush(ctx, tag+"plain", "a", "b", "c").Err())
			q, err := queue.New(rdb, tag+"queue")
			require.NoError(t, err)
			_, err = q.PushMany(ctx, []any{"a", "b"})
			require.NoError(t, err)
			_, err = q.Push(ctx, "later", queue.In(time.Hour))
			require.NoError(t, err)

			odd := `"` + tag + `odd\n\"name\""`
			names := func(got result) (names []string) {
				require.Equal(t, exitOK, got.code, got.err)
				for line := range strings.Lines(got.out) {
					fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
					names = append(names, fields[len(fields)-1])
				}
				return names
			}
			all := []string{odd, tag + "many", tag + "one", tag + "plain", tag + "queue", tag + "spread"}
			found := names(ls(tag + "*"))
			slices.Sort(found)
			assert.Equal(t, all, found, "in any order")
			assert.Equal(t, slices.Concat(all[1:2], all[5:], all[3:4]), names(ls(tag+"*", "--sort", "length", "--limit", "3")))
			assert.Equal(t, all[1:2], names(ls(tag+"*", "--sort", "memory", "--limit", "1")))
			assert.Equal(t, []string{odd}, names(ls(tag+"*", "--sort", "ttl", "--limit", "1")))
			assert.Equal(t, all[5:], names(ls(tag+"*", "--reverse", "--limit", "1")), "by name")
			assert.Len(t, names(ls(tag+"*", "--limit", "2")), 2)

			many := strings.Split(strings.TrimSuffix(ls(tag+"many").out, "\n"), "\t")
			assert.Equal(t, []string{"sharded", "1234", "124", "10"}, many[:4])
			assert.Regexp(t, `^\d{5}$`, many[4], "bytes")
			table := ls(tag+"*", "--no-raw", "--sort", "length").out
			header, first, _ := strings.Cut(table, "\n")
			assert.Equal(t, "FORM          LENGTH   SHARDS CAPACITY   MEMORY     TTL WAITS  PLACE                   NAME", header)
			assert.Regexp(t, `^sharded        1,234      124       10 +[\d.]+ KiB       -     -  \S+.* `+tag+`many\n`, first)
			assert.Regexp(t, `spread .* 3 parts +`+tag+`spread\n`, table)
			assert.Regexp(t, `plain +2 .* 59 min `, table)

			var object map[string]any
			require.NoError(t, json.Unmarshal([]byte(ls(tag+"queue", "--json").out), &object))
			assert.Equal(t, tag+"queue", object["name"])
			assert.EqualValues(t, 2, object["length"])
			assert.EqualValues(t, 1, object["queue"].(map[string]any)["delayed"])
			if kind == redistest.Cluster {
				assert.NotEmpty(t, object["node"])
			}
		})
	}
}

// ls prints the lists of the other masters, and fails.
func TestLsWhileAMasterIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	rdb := server.Client(t)
	for _, node := range server.Nodes() {
		require.NoError(t, node.Client(t).ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	living := 0
	for i := range 9 {
		name := fmt.Sprint("l", i)
		require.NoError(t, rdb.RPush(t.Context(), name, "a").Err())
		owner, err := server.SlotOwner(t.Context(), int(rdb.ClusterKeySlot(t.Context(), name).Val()))
		require.NoError(t, err)
		if owner != 2 {
			living++
		}
	}
	server.Nodes()[2].Kill()
	for _, args := range []string{"ls", "ls --sort name", "ls l*"} {
		got := <-start(t.Context(), nil, append(strings.Fields(args), "--redis", server.URL())...)
		assert.Equal(t, exitFailure, got.code, args)
		assert.Equal(t, living, strings.Count(got.out, "\n"), args)
		assert.Contains(t, got.err, "connection refused", args)
	}
}

func TestMistakesOfLs(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"ls --sort size", "ls --limit -1", "ls a b"} {
		assert.Equal(t, exitUsage, (<-start(t.Context(), nil, strings.Split(args, " ")...)).code, args)
	}
}

func TestHumanNumbers(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "0.977 KiB", 1024: "1 KiB", 1536: "1.5 KiB", 1023 << 10: "0.999 MiB", 10 << 20: "10 MiB", 5 << 40: "5 TiB"} {
		assert.Equal(t, want, humanBytes(bytes))
	}
	for ttl, want := range map[time.Duration]string{
		0: "-", time.Millisecond: "1 s", 119 * time.Second: "119 s", 2 * time.Minute: "2 min", 119 * time.Minute: "119 min", 47 * time.Hour: "47 h", 48 * time.Hour: "2 d",
	} {
		assert.Equal(t, want, humanTTL(ttl), fmt.Sprint(ttl))
	}
}

func TestTopWithoutATerminal(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster, redistest.Sentinel} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t, kind)
			ctx, tag := t.Context(), "top-"+uuid.NewString()+":"
			list, err := shardedlist.New(server.Client(t), tag+"jobs", shardedlist.WithCapacity(5))
			require.NoError(t, err)
			_, err = list.RPush(ctx, make([]string, 100))
			require.NoError(t, err)
			stopped := make(chan struct{})
			pushed := make(chan error, 1)
			go func() {
				for {
					select {
					case <-stopped:
						pushed <- nil
						return
					default:
					}
					if _, err := list.RPush(ctx, "a"); err != nil {
						pushed <- err
						return
					}
				}
			}()
			got := <-start(ctx, nil, "--redis", server.URL(), "top", tag+"*", "--count", "2", "--interval", "100ms")
			close(stopped)
			require.NoError(t, <-pushed)
			require.Equal(t, exitOK, got.code, got.err)
			lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
			require.Len(t, lines, 2)
			assert.Regexp(t, `^0\.000\t0\.000\tsharded\t\d{3,}\t.*\t`+tag+`jobs$`, lines[0])
			assert.Regexp(t, `^[1-9]\d*\.\d{3}\t0\.000\tsharded\t\d{3,}\t.*\t`+tag+`jobs$`, lines[1])

			got = <-start(ctx, nil, "--redis", server.URL(), "top", tag+"jobs", "--count", "1", "--json")
			assert.Regexp(t, `^\{.*"exact":false,.*"in_per_second":0,.*"name":"`+tag+`jobs".*\}\n$`, got.out)
		})
	}
	for _, args := range []string{"top --interval 1ms", "top --count -1", "top a b"} {
		assert.Equal(t, exitUsage, (<-start(t.Context(), nil, strings.Split(args, " ")...)).code, args)
	}
}
