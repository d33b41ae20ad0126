package survey_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/survey"
	"github.com/shardedlist/shardedlist/queue"
	"github.com/shardedlist/shardedlist/tests/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Main(m)) }

// world is a server with lists of its own names.
type world struct {
	*testing.T
	rdb   redis.UniversalClient
	space string
}

func newWorld(t *testing.T, server *redistest.Server) *world {
	return &world{t, server.Client(t), "survey-" + uuid.NewString() + ":"}
}

// list returns a list with that many elements.
func (w *world) list(name string, length int, options ...shardedlist.Option) *shardedlist.ShardedList {
	w.Helper()
	list, err := shardedlist.New(w.rdb, w.space+name, options...)
	require.NoError(w, err)
	for some := range slices.Chunk(values(length), 5) { // a spread list does not divide what one call pushes
		_, err = list.RPush(w.Context(), some...)
		require.NoError(w, err)
	}
	return list
}

func values(count int) []any {
	result := make([]any, count)
	for i := range result {
		result[i] = strconv.Itoa(i)
	}
	return result
}

// survey returns the rows by their names, and fails if one comes twice.
func (w *world) survey(o survey.Options) map[string]survey.Row {
	w.Helper()
	if o.Match == "" {
		o.Match = w.space + "*"
	}
	rows := map[string]survey.Row{}
	for row, err := range survey.Rows(w.Context(), w.rdb, o) {
		require.NoError(w, err)
		name := strings.TrimPrefix(strings.Replace(row.Name, "{"+w.space, "{", 1), w.space)
		require.NotContains(w, rows, name)
		rows[name] = row
	}
	return rows
}

// Every list has a row, which tells its form and its numbers, and nothing else has one.
func TestEveryFormHasItsRow(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		w := newWorld(t, server)
		ctx, rdb := t.Context(), w.rdb
		w.list("sharded", 25, shardedlist.WithCapacity(10))
		w.list("spread", 25, shardedlist.WithCapacity(10), shardedlist.WithParts(3))
		require.NoError(t, rdb.RPush(ctx, w.space+"plain", values(25)...).Err())
		require.NoError(t, rdb.RPush(ctx, w.space+"adopted", values(2000)...).Err())
		w.list("adopted", 1, shardedlist.WithCapacity(512))
		w.list("newcomers", 7, shardedlist.WithCapacity(6))
		require.NoError(t, rdb.RPush(ctx, w.space+"newcomers", values(3)...).Err())
		restored := w.list("restored", 25, shardedlist.WithCapacity(10))
		require.NoError(t, restored.Restore(ctx, nil))
		expires := w.list("expires", 25, shardedlist.WithCapacity(20))
		_, err := expires.Expire(ctx, time.Hour)
		require.NoError(t, err)
		expires = w.list("spread expires", 25, shardedlist.WithParts(2))
		_, err = expires.Expire(ctx, time.Hour)
		require.NoError(t, err)
		require.NoError(t, rdb.RPush(ctx, w.space+"plain expires", values(25)...).Err())
		require.NoError(t, rdb.Expire(ctx, w.space+"plain expires", time.Hour).Err())
		require.NoError(t, rdb.RPush(ctx, w.space+"plain for ever", values(25)...).Err())
		require.NoError(t, rdb.ExpireAt(ctx, w.space+"plain for ever", time.Now().AddDate(1000, 0, 0)).Err())
		require.NoError(t, rdb.HSet(ctx, "{"+w.space+"foreign}:meta", "mine", 1).Err())
		require.NoError(t, rdb.RPush(ctx, w.space+"foreign", values(25)...).Err())
		for _, name := range []string{"emptied", "spread and emptied"} {
			list := w.list(name, 25, shardedlist.WithParts(1+len(name)/10))
			_, err = list.LPopCount(ctx, 25)
			require.NoError(t, err)
		}
		deleted := w.list("spread once", 25, shardedlist.WithParts(3))
		_, err = deleted.Del(ctx)
		require.NoError(t, err)
		require.NoError(t, rdb.RPush(ctx, deleted.Name(), values(25)...).Err())
		for key, value := range map[string]any{"string": "x", "hash:meta": "x"} {
			require.NoError(t, rdb.HSet(ctx, w.space+key, "layout", value).Err())
		}

		rows := w.survey(survey.Options{})
		for name, want := range map[string]survey.Row{
			"sharded":        {Form: survey.Sharded, Length: 25, Shards: 3, Capacity: 10},
			"spread":         {Form: survey.Spread, Length: 25, Shards: 3, Capacity: 10, Parts: 3},
			"plain":          {Form: survey.Plain, Length: 25, Shards: 1},
			"adopted":        {Form: survey.Adopted, Length: 2001, Shards: 2, Capacity: 512, Backlog: 1488},
			"newcomers":      {Form: survey.Sharded, Length: 7, Shards: 2, Capacity: 6, Newcomers: 3},
			"restored":       {Form: survey.Restored, Length: 25, Shards: 1},
			"expires":        {Form: survey.Sharded, Length: 25, Shards: 2, Capacity: 20},
			"spread expires": {Form: survey.Spread, Length: 25, Shards: 1, Capacity: 512, Parts: 2},
			"plain expires":  {Form: survey.Plain, Length: 25, Shards: 1},
			"plain for ever": {Form: survey.Plain, Length: 25, Shards: 1},
			"foreign":        {Form: survey.Plain, Length: 25, Shards: 1},
			"spread once":    {Form: survey.Plain, Length: 25, Shards: 1},
		} {
			row, found := rows[name]
			if !assert.True(t, found, name) {
				continue
			}
			delete(rows, name)
			require.NoError(t, row.Err, name)
			if server.Kind() != redistest.Embedded {
				assert.Positive(t, row.Bytes, name)
			}
			if strings.HasSuffix(name, "expires") {
				assert.InDelta(t, time.Hour, row.TTL, float64(time.Minute), name)
			} else if strings.HasSuffix(name, "ever") {
				assert.Greater(t, row.TTL, 290*365*24*time.Hour, name)
			} else {
				assert.Zero(t, row.TTL, name)
			}
			assert.Equal(t, server.Kind() == redistest.Cluster, row.Node != "", name)
			if server.Kind() == redistest.Cluster {
				assert.EqualValues(t, rdb.ClusterKeySlot(ctx, row.Name).Val(), row.Slot, name)
			}
			got := survey.Row{
				Form: row.Form, Length: row.Length, Shards: row.Shards, Capacity: row.Capacity, Parts: row.Parts, Backlog: row.Backlog,
				Newcomers: row.Newcomers,
			}
			assert.Equal(t, want, got, name)
		}
		assert.Empty(t, rows, "nothing else is a list")

		rows = w.survey(survey.Options{WithoutBytes: true})
		assert.Contains(t, rows, "restored")
		assert.Zero(t, rows["sharded"].Bytes)
		one := w.survey(survey.Options{Match: w.space + "plain"})
		assert.Len(t, one, 1)
	})
}

// An empty list has a row while somebody waits, which tells how long ago that was.
func TestWaitingConsumersShow(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		w := newWorld(t, server)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		for _, list := range []*shardedlist.ShardedList{w.list("one", 0), w.list("spread", 1, shardedlist.WithParts(3))} {
			_, err := list.LPop(t.Context())
			if err != redis.Nil {
				require.NoError(t, err)
			}
			go func() {
				_, err := list.BLPop(ctx, time.Minute)
				done <- err
			}()
		}
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			rows := w.survey(survey.Options{WithoutBytes: true})
			assert.True(c, rows["one"].Armed)
			assert.True(c, rows["spread"].Armed)
			assert.Less(c, rows["one"].LookedAgo, 10*time.Second)
			assert.GreaterOrEqual(c, rows["one"].LookedAgo, time.Duration(0))
			assert.Negative(c, rows["spread"].LookedAgo)
		}, 10*time.Second, 5*time.Millisecond)
		stop()
		for range 2 {
			require.ErrorIs(t, <-done, context.Canceled)
		}
	})
}

// A queue shows even if no job waits in its list.
func TestQueuesShow(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		w := newWorld(t, server)
		ctx := t.Context()
		q, err := queue.New(w.rdb, w.space+"mail", queue.Attempts(1))
		require.NoError(t, err)
		_, err = q.Push(ctx, "later", queue.In(time.Hour))
		require.NoError(t, err)
		row := w.survey(survey.Options{})["mail"]
		require.NotNil(t, row.Queue)
		assert.Equal(t, survey.Queue{Delayed: 1}, *row.Queue)

		for range 3 {
			_, err = q.Push(ctx, "bad")
			require.NoError(t, err)
		}
		run, stop := context.WithCancel(ctx)
		ended := make(chan error)
		go func() {
			ended <- q.Run(run, 1, func(context.Context, *queue.Job) error { return assert.AnError })
		}()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			row := w.survey(survey.Options{})["mail"]
			require.NotNil(c, row.Queue)
			assert.EqualValues(c, 3, row.Queue.Dead)
			assert.EqualValues(c, 3, row.Queue.Buried)
			assert.True(c, row.Queue.Waits)
		}, 20*time.Second, 5*time.Millisecond)
		stop()
		<-ended
		rows := w.survey(survey.Options{})
		assert.True(t, rows["mail"].Queue.Oldest.IsZero())
		_, err = q.Push(ctx, "good")
		require.NoError(t, err)
		require.NoError(t, q.Pause(ctx))
		row = w.survey(survey.Options{})["mail"]
		stats, err := q.Stats(ctx)
		require.NoError(t, err)
		assert.True(t, row.Queue.Paused)
		assert.WithinDuration(t, stats.Oldest, row.Queue.Oldest, 0)
		assert.WithinDuration(t, time.Now(), row.Queue.Oldest, time.Minute)

		dead, err := survey.Look(ctx, w.rdb, []string{q.Dead().Name(), "no such list"}, survey.Options{})
		require.NoError(t, err)
		require.Len(t, dead, 1)
		assert.EqualValues(t, 3, dead[0].Length)
		assert.Nil(t, dead[0].Queue, "it is that of the dead")
	})
}

// A list that cannot be read has a row that says why, and the others have theirs.
func TestABrokenListHasARow(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		w := newWorld(t, server)
		ctx := t.Context()
		w.list("sound", 3)
		broken := w.list("broken", 3, shardedlist.WithCapacity(1))
		meta := "{" + broken.Name() + "}:meta"
		layout, err := w.rdb.HGet(ctx, meta, "layout").Result()
		require.NoError(t, err)
		identity := layout[strings.LastIndexByte(layout, ' ')+1:]
		require.NoError(t, w.rdb.Del(ctx, "{"+broken.Name()+"}:"+identity+":0").Err())
		w.list("of the future", 3)
		require.NoError(t, w.rdb.HSet(ctx, "{"+w.space+"of the future}:meta", "layout", "9 0 0").Err())
		rows := w.survey(survey.Options{})
		assert.ErrorIs(t, rows["broken"].Err, shardedlist.ErrBroken)
		assert.ErrorIs(t, rows["of the future"].Err, shardedlist.ErrLayout)
		assert.NoError(t, rows["sound"].Err)
		assert.EqualValues(t, 3, rows["sound"].Length)
		assert.Len(t, rows, 3)
	})
}

// Shards that no meta knows have a row, but those of a list that was renamed do not.
func TestALostListHasARow(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Start(t, kind))
			w.space = ""
			w.list("sound", 10, shardedlist.WithCapacity(1))
			w.list("lost", 10, shardedlist.WithCapacity(1))
			require.NoError(t, w.list("{a}former", 10, shardedlist.WithCapacity(1)).Rename(t.Context(), "{a}renamed"))
			require.NoError(t, w.rdb.Del(t.Context(), "{lost}:meta").Err())
			for name, since := range map[string]int{"begun, short": 1, "begun, long": 5} { // anew, after the loss
				list := w.list(name, 10, shardedlist.WithCapacity(1))
				require.NoError(t, w.rdb.Del(t.Context(), "{"+name+"}:meta").Err())
				for range since {
					_, err := list.RPush(t.Context(), "new")
					require.NoError(t, err)
				}
			}
			require.NoError(t, w.rdb.Set(t.Context(), "{lost}:short.meta", "", time.Minute).Err()) // it was short before
			for _, match := range []string{"", "*"} {
				first, second := map[string]survey.Row{}, map[string]survey.Row{}
				for row, err := range survey.Rows(t.Context(), w.rdb, survey.Options{Match: match}) {
					require.NoError(t, err)
					rows := first
					if row.Again {
						rows = second
					}
					require.NotContains(t, rows, row.Name)
					rows[row.Name] = row
				}
				require.Len(t, first, 5)
				for _, name := range []string{"sound", "{a}renamed"} {
					assert.NoError(t, first[name].Err)
					assert.Zero(t, first[name].Strays)
				}
				assert.ErrorIs(t, first["lost"].Err, shardedlist.ErrBroken)
				assert.ErrorContains(t, first["lost"].Err, "no meta knows its shards: 10")
				assert.EqualValues(t, 10, first["lost"].Strays)
				require.Len(t, second, 2)
				for name, length := range map[string]int64{"begun, short": 1, "begun, long": 5} {
					assert.NoError(t, second[name].Err)
					assert.Equal(t, length, second[name].Length)
					assert.EqualValues(t, 10, second[name].Strays)
				}
			}
			names := map[string]int{}
			for name, err := range shardedlist.Scan(t.Context(), w.rdb, "*") {
				require.NoError(t, err)
				names[name]++
			}
			assert.Equal(t, map[string]int{"sound": 1, "{a}renamed": 1, "lost": 1, "begun, short": 1, "begun, long": 1}, names)
		})
	}
}

// Nothing that a list is stored in is taken for a plain list, nor are the keys of limiters and queues.
func TestKeysOfTheLibraryAreNoLists(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		w := newWorld(t, server)
		ctx := t.Context()
		tagged := w.space + "{t}"
		list, err := shardedlist.New(w.rdb, tagged+"old", shardedlist.WithCapacity(3))
		require.NoError(t, err)
		_, err = list.RPush(ctx, values(2500)...)
		require.NoError(t, err)
		_, err = list.LPopCount(ctx, 1000) // a record with a list
		require.NoError(t, err)
		require.NoError(t, list.Rename(ctx, tagged+"new"))
		spread := w.list("spread", 300, shardedlist.WithCapacity(3), shardedlist.WithParts(4))
		_, err = spread.LPopCount(ctx, 50)
		require.NoError(t, err)
		for _, bell := range []string{"{" + w.space + "waits}:bell", tagged + "new:bell"} { // as a push leaves it
			require.NoError(t, w.rdb.RPush(ctx, bell, "1").Err())
			require.NoError(t, w.rdb.Expire(ctx, bell, 30*time.Second).Err())
		}
		w.list("waits", 1)
		names := []string{}
		for row, err := range survey.Rows(ctx, w.rdb, survey.Options{Match: "*" + w.space + "*"}) {
			require.NoError(t, err)
			names = append(names, row.Name)
		}
		slices.Sort(names)
		want := []string{w.space + "spread", w.space + "waits", tagged + "new"}
		slices.Sort(want)
		assert.Equal(t, want, names)
	})
}

// A bell that outlives its list for half a minute is none, but a list of somebody else's that has such a name is.
func TestABellWithoutAListIsNoList(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		w := newWorld(t, server)
		ctx := t.Context()
		list, err := shardedlist.New(w.rdb, w.space+"waits")
		require.NoError(t, err)
		harness.Arm(t, list)
		_, err = list.RPush(ctx, "a") // rings for a consumer that has gone
		require.NoError(t, err)
		_, err = list.Del(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 1, w.rdb.LLen(ctx, "{"+w.space+"waits}:bell").Val())
		for _, bell := range []string{"{" + w.space + "limiter}:lock/bell", "{" + w.space + "limiter}:lock/bell:" + uuid.NewString()} { // see limit
			require.NoError(t, w.rdb.RPush(ctx, bell, "1").Err())
			require.NoError(t, w.rdb.Expire(ctx, bell, 10*time.Second).Err())
		}
		others := "{" + w.space + "other}:bell"
		require.NoError(t, w.rdb.RPush(ctx, others, "1").Err())

		rows := w.survey(survey.Options{Match: "*" + w.space + "*"})
		assert.Equal(t, []string{"{other}:bell"}, slices.Collect(maps.Keys(rows)))
	})
}

// What comes in and goes out is derived from two looks.
func TestFlow(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		w := newWorld(t, server)
		ctx := t.Context()
		q, err := queue.New(w.rdb, w.space+"queue")
		require.NoError(t, err)
		lists := map[string]*shardedlist.ShardedList{
			"shards": w.list("shards", 100, shardedlist.WithCapacity(7)),
			"spread": w.list("spread", 100, shardedlist.WithCapacity(7), shardedlist.WithParts(2)),
			"short":  w.list("short", 50, shardedlist.WithCapacity(1000)),
		}
		_, err = q.Push(ctx, "a")
		require.NoError(t, err)
		before := w.survey(survey.Options{})
		for _, list := range lists {
			_, err := list.RPush(ctx, values(30)...)
			require.NoError(t, err)
			_, err = list.LPopCount(ctx, 40)
			require.NoError(t, err)
		}
		for range 4 {
			_, err = q.Push(ctx, "b")
			require.NoError(t, err)
		}
		run, stop := context.WithCancel(ctx)
		ran := 0
		require.NoError(t, q.Run(run, 1, func(context.Context, *queue.Job) error {
			if ran++; ran == 3 {
				stop()
			}
			return nil
		}))
		after := w.survey(survey.Options{})
		for name := range lists {
			in, out, exact := survey.Flow(before[name], after[name])
			if name == "short" {
				assert.Equal(t, []any{int64(0), int64(10), false}, []any{in, out, exact}, name)
				continue
			}
			assert.Equal(t, []any{int64(30), int64(40), true}, []any{in, out, exact}, name)
		}
		in, out, exact := survey.Flow(before["queue"], after["queue"])
		assert.Equal(t, []any{int64(4), int64(3), true}, []any{in, out, exact})
	})
}

// Thousands of keys, lists and shards take few round trips, and the progress ends at the number of keys.
func TestASurveyTakesFewRoundTrips(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	w := newWorld(t, server)
	ctx := t.Context()
	pipe := w.rdb.Pipeline()
	for i := range 20_000 {
		pipe.Set(ctx, "other:"+strconv.Itoa(i), i, 0)
	}
	_, err := pipe.Exec(ctx)
	require.NoError(t, err)
	for i := range 400 {
		w.list(strconv.Itoa(i), 3)
	}
	w.list("shards", 5000, shardedlist.WithCapacity(1))
	trips := &counter{}
	w.rdb.AddHook(trips)
	var looked, keys int64
	rows := w.survey(survey.Options{Match: "*", Progress: func(l, k int64) {
		assert.GreaterOrEqual(t, l, looked)
		looked, keys = l, k
	}})
	assert.Len(t, rows, 401)
	assert.GreaterOrEqual(t, keys, int64(20_800))
	assert.InDelta(t, keys, looked, 0.2*float64(keys))
	assert.Less(t, trips.trips.Load(), int64(2*30+400/20*2+5))
}

type counter struct{ trips atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.trips.Add(1)
		return next(ctx, cmd)
	}
}
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.trips.Add(1)
		return next(ctx, cmds)
	}
}
