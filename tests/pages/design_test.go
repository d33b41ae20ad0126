package pages

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The table of keys in docs/design.md names every key, type and field that lists leave on a server, and no other.
func TestDesignPageNamesEveryKey(t *testing.T) {
	t.Parallel()
	want, fields := keysInDesignPage(t)
	rdb := redistest.Start(t, redistest.Redis).Client(t).(*redis.Client)
	seen, seenFields := map[string]string{}, map[string]bool{}
	look := func() {
		for _, key := range rdb.Keys(t.Context(), "*").Val() {
			kind := rdb.Type(t.Context(), key).Val()
			if kind == "none" {
				continue // it has expired or was popped meanwhile
			}
			form := formOf(key)
			assert.Equal(t, want[form], kind, "%s, of the form %s", key, form)
			seen[form] = kind
			if form == "{jobs}:meta" {
				for field := range rdb.HGetAll(t.Context(), key).Val() {
					seenFields[formOf(field)] = true
				}
			}
		}
	}

	list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
	jobs, err := shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(2))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	result := harness.BlockingPop(t, jobs, ctx, 0)
	harness.Asleep(t, jobs)
	look() // armed
	cancel()
	assert.ErrorIs(t, (<-result).Err, context.Canceled)
	require.NoError(t, rdb.RPush(t.Context(), harness.Keys(jobs).Release("5c0b1e38-6d4b-4b7e-9f1f-0d8a54a2c111"), 1).Err()) // is there for a moment only
	look()
	source := harness.OneSlot(jobs).Source(layout.Left)
	_, err = source.Pop(1, "first", "").Run(t.Context())
	require.NoError(t, err)
	_, err = jobs.RPush(t.Context(), harness.Numbers(0, 500)...)
	require.NoError(t, err)
	look() // rung
	aside := harness.AsideStep{List: jobs, Side: "R", Values: []any{"x"}}
	aside.Begin(t)
	look() // within a large push
	assert.False(t, aside.End(t))
	_, err = jobs.LPopCount(t.Context(), 3)
	require.NoError(t, err)
	begin := script.NewCall(script.Load("search"), []any{harness.Keys(jobs).Meta}, 4)
	begin.Args = append(begin.Args, "begin", "id", "", 1000)
	_, err = (&script.Runner{Client: rdb}).Run(t.Context(), begin)
	require.NoError(t, err)
	look() // is searched
	_, err = harness.Bare(harness.OneSlot(jobs).Expire(layout.Expiry{How: layout.ExpireIn, Milliseconds: time.Hour.Milliseconds()})).Run(t.Context())
	require.NoError(t, err)
	look() // expires, and is not through with its shards
	_, err = harness.Bare(harness.OneSlot(jobs).Delete()).Run(t.Context())
	require.NoError(t, err)
	look() // to be swept
	popInMeta := script.NewCall(script.Load("pop"), []any{harness.Keys(jobs).Meta}, 6)
	popInMeta.Args = append(popInMeta.Args, "@5c0b1e38-6d4b-4b7e-9f1f-0d8a54a2c111", 1, 1000, "L", 1, "no")
	_, err = (&script.Runner{Client: rdb}).Run(t.Context(), popInMeta)
	require.NoError(t, err)
	look() // holds a record
	_, err = jobs.Del(t.Context())
	require.NoError(t, err)
	bySize, err := shardedlist.New(rdb, "jobs")
	require.NoError(t, err)
	for _, size := range []int{1, 10_000} {
		for range 100 {
			_, err = bySize.RPush(t.Context(), slices.Repeat([]any{strings.Repeat("x", size)}, 100)...)
			require.NoError(t, err)
		}
	}
	look()                              // has elements that have become larger
	require.Eventually(t, func() bool { // when what it left has been swept
		require.NoError(t, bySize.LTrim(t.Context(), -1, -1))
		return rdb.Exists(t.Context(), "jobs").Val() == 1
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, bySize.LTrim(t.Context(), 1, 0))
	look() // had become short
	_, err = list.RPush(t.Context(), "a list of another name has keys of the same form")
	require.NoError(t, err)

	assert.Equal(t, want, seen)
	assert.ElementsMatch(t, fields, slices.Collect(maps.Keys(seenFields)))
}

// formOf replaces what is different in keys of the same kind, as the table does.
func formOf(key string) string {
	key = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`).ReplaceAllString(key, "<uuid>")
	key = regexp.MustCompile(`:op:<uuid>:\d+$`).ReplaceAllString(key, ":op:<uuid>:<number>")
	return regexp.MustCompile(`:#[0-9a-f]{12}\.\d+:-?\d+$`).ReplaceAllString(key, ":#<identity>:<id>")
}

// keysInDesignPage returns the forms of keys in the table, with their types, and the fields of meta.
func keysInDesignPage(t *testing.T) (keys map[string]string, fields []string) {
	page, err := os.ReadFile("docs/design.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Keys\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	keys = map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\{jobs\\}:[^`]+)` \\| (\\w+) \\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		keys[row[1]] = row[2]
		if row[1] == "{jobs}:meta" {
			for _, field := range regexp.MustCompile("`([\\w:@<>]+)`").FindAllStringSubmatch(row[3], -1) {
				fields = append(fields, field[1])
			}
		}
	}
	return keys, fields
}
