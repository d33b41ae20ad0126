// Package release checks what a release promises: lists that earlier versions have stored are read, and the public API changes only on
// purpose.
package release

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/queue"
	"github.com/shardedlist/shardedlist/tests/harness"
)

var write = flag.String("write", "", "write the dump of this `version`, or with api the exported API, in place of comparing")

func TestMain(m *testing.M) { harness.Main(m) }

// form is a way in which a list is stored.
type form struct {
	name   string
	opts   []shardedlist.Option
	make   func(t *testing.T, list *shardedlist.ShardedList)
	stored string // the type of the key of its name
	sharded,
	expires bool
	want []string
}

var (
	farAway = time.Unix(32e8, 0) // in 2071
	nine    = words(0, 9)
)

func words(from, to int) (words []string) {
	for i := from; i < to; i++ {
		words = append(words, fmt.Sprint("element ", i))
	}
	return words
}

func values(words []string) (values []any) {
	for _, word := range words {
		values = append(values, word)
	}
	return values
}

func push(t *testing.T, list *shardedlist.ShardedList, values ...string) {
	t.Helper()
	for _, value := range values {
		_, err := list.RPush(t.Context(), value)
		require.NoError(t, err)
	}
}

var forms = []form{
	{name: "short", stored: "list", want: nine, make: func(t *testing.T, list *shardedlist.ShardedList) { push(t, list, nine...) }},
	{name: "short expires", stored: "list", want: nine, expires: true, make: func(t *testing.T, list *shardedlist.ShardedList) {
		push(t, list, nine...)
		_, err := list.ExpireAt(t.Context(), farAway)
		require.NoError(t, err)
	}},
	{
		name: "long", stored: "none", sharded: true, want: nine, opts: []shardedlist.Option{shardedlist.WithCapacity(4)},
		make: func(t *testing.T, list *shardedlist.ShardedList) { push(t, list, nine...) },
	},
	{
		name: "{tag}:long expires", stored: "none", sharded: true, want: nine, expires: true, opts: []shardedlist.Option{shardedlist.WithCapacity(2)},
		make: func(t *testing.T, list *shardedlist.ShardedList) {
			push(t, list, nine...)
			_, err := list.ExpireAt(t.Context(), farAway)
			require.NoError(t, err)
		},
	},
	{
		name: "renamed", stored: "none", sharded: true, want: nine, opts: []shardedlist.Option{shardedlist.WithCapacity(2)},
		make: func(t *testing.T, list *shardedlist.ShardedList) {
			before := harness.OpenList(t, harness.Client(list), "renamed before", shardedlist.WithCapacity(2))
			push(t, before, nine...)
			require.NoError(t, before.Rename(t.Context(), list.Name()))
		},
	},
	{
		name: "newcomers", stored: "list", sharded: true, want: nine, opts: []shardedlist.Option{shardedlist.WithCapacity(2), shardedlist.WithPoppedAt("left")},
		make: func(t *testing.T, list *shardedlist.ShardedList) {
			push(t, list, nine[:7]...)
			require.NoError(t, harness.Client(list).RPush(t.Context(), list.Name(), nine[7], nine[8]).Err())
		},
	},
	{
		name: "restored", stored: "list", want: nine, opts: []shardedlist.Option{shardedlist.WithCapacity(2)},
		make: func(t *testing.T, list *shardedlist.ShardedList) {
			push(t, list, nine...)
			require.NoError(t, list.Restore(t.Context(), nil))
		},
	},
	{
		name: "steps of capacity", stored: "none", sharded: true, want: append(words(0, 9000), large...),
		make: func(t *testing.T, list *shardedlist.ShardedList) {
			for from := 0; from < 9000; from += 1000 {
				_, err := list.RPush(t.Context(), values(words(from, from+1000))...)
				require.NoError(t, err)
			}
			push(t, list, large...)
		},
	},
	{
		name: "spread", stored: "none", sharded: true, want: nine, opts: []shardedlist.Option{shardedlist.WithParts(3), shardedlist.WithCapacity(2)},
		make: func(t *testing.T, list *shardedlist.ShardedList) { push(t, list, nine...) },
	},
	{
		name: "swept in part", stored: "none", sharded: true, want: nine, opts: []shardedlist.Option{shardedlist.WithCapacity(1)},
		make: func(t *testing.T, list *shardedlist.ShardedList) {
			push(t, list, words(-200, 9)...)
			_, err := harness.Bare(harness.OneSlot(list).Trim(-9, -1)).Run(t.Context())
			require.NoError(t, err)
		},
	},
}

// large are elements that make shards smaller.
var large = func() (values []string) {
	for i := range 40 {
		values = append(values, strings.Repeat(fmt.Sprint(i%10), 40_000))
	}
	return values
}()

// Every form of list that an earlier version has stored is read, changed and checked by this one, whatever the server.
func TestListsOfEarlierVersionsAreRead(t *testing.T) {
	t.Parallel()
	if *write != "" && *write != "api" {
		writeDump(t, *write)
	}
	dumps, err := filepath.Glob("testdata/*.rdb")
	require.NoError(t, err)
	require.NotEmpty(t, dumps)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		if kind == redistest.Embedded {
			t.Skip("the embedded server reads no RDB file")
		}
		for _, dump := range dumps {
			t.Run(string(kind)+"/"+filepath.Base(dump), func(t *testing.T) {
				t.Parallel()
				rdb := load(t, kind, dump)
				for _, f := range forms {
					t.Run(f.name, func(t *testing.T) { f.check(t, rdb) })
				}
				checkQueue(t, rdb)
			})
		}
	}
}

// load returns a client of a server that has loaded a dump.
func load(t *testing.T, kind redistest.Kind, dump string) redis.UniversalClient {
	t.Helper()
	dir := t.TempDir()
	content, err := os.ReadFile(dump)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dump.rdb"), content, 0o600))
	return redistest.Start(t, kind, "dir "+dir, "dbfilename dump.rdb").Client(t)
}

func (f form) check(t *testing.T, rdb redis.UniversalClient) {
	ctx := t.Context()
	assert.Equal(t, f.stored, rdb.Type(ctx, f.name).Val())
	list, err := shardedlist.New(rdb, f.name)
	require.NoError(t, err)
	info, err := list.Info(ctx)
	require.NoError(t, err)
	assert.Equal(t, f.sharded, info.Capacity > 0, "%+v", info)
	require.NoError(t, list.Check(ctx))
	length, err := list.LLen(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, len(f.want), length)
	assert.Equal(t, f.want, harness.Content(t, list))
	last, err := list.LIndex(ctx, -2)
	require.NoError(t, err)
	assert.Equal(t, f.want[len(f.want)-2], last)
	ttl, err := list.TTL(ctx)
	require.NoError(t, err)
	assert.Equal(t, f.expires, ttl > 0)

	_, err = list.LPush(ctx, "first")
	require.NoError(t, err)
	_, err = list.RPush(ctx, "last")
	require.NoError(t, err)
	popped, err := list.LPopCount(ctx, len(f.want)+1)
	require.NoError(t, err)
	assert.Equal(t, append([]string{"first"}, f.want...), popped)
	value, err := list.RPop(ctx)
	require.NoError(t, err)
	assert.Equal(t, "last", value)
	require.NoError(t, list.Check(ctx))
}

func checkQueue(t *testing.T, rdb redis.UniversalClient) {
	ctx := t.Context()
	q, err := queue.New(rdb, "queue")
	require.NoError(t, err)
	for state, payload := range map[queue.State]string{queue.Waiting: "waits", queue.Delayed: "later", queue.Dead: "failed"} {
		jobs, err := q.Peek(ctx, state, 10)
		require.NoError(t, err)
		if assert.Len(t, jobs, 1, state) {
			assert.Equal(t, payload, string(jobs[0].Payload))
		}
	}
	retried, err := q.RetryAll(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 1, retried)
}

// writeDump stores every form of list in a file for this version and the ones to come.
func writeDump(t *testing.T, version string) {
	ctx, server := t.Context(), redistest.Start(t, redistest.Redis)
	rdb := server.Client(t)
	for _, f := range forms {
		list, err := shardedlist.New(rdb, f.name, f.opts...)
		require.NoError(t, err)
		f.make(t, list)
	}
	q, err := queue.New(rdb, "queue", queue.Attempts(1))
	require.NoError(t, err)
	_, err = q.Push(ctx, "failed")
	require.NoError(t, err)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		ended <- q.Run(running, 1, func(context.Context, *queue.Job) error { return errors.New("it fails") })
	}()
	require.Eventually(t, func() bool {
		dead, _ := q.Dead().LLen(ctx)
		return dead == 1
	}, 10*time.Second, time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	_, err = q.Push(ctx, "waits")
	require.NoError(t, err)
	_, err = q.Push(ctx, "later", queue.At(farAway))
	require.NoError(t, err)
	require.NoError(t, rdb.Save(ctx).Err())
	dir := rdb.ConfigGet(ctx, "dir").Val()["dir"]
	content, err := os.ReadFile(filepath.Join(dir, "dump.rdb"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("testdata/"+version+".rdb", content, 0o644))
}
