package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/queue"
)

func TestCompletionOfListNames(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster, redistest.Sentinel} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t, kind)
			tag := "complete-" + string(kind)
			for i, options := range [][]shardedlist.Option{nil, {shardedlist.WithParts(3)}, nil} {
				list, err := shardedlist.New(server.Client(t), fmt.Sprintf("%s:%d", tag, i), options...)
				require.NoError(t, err)
				_, err = list.RPush(t.Context(), "a")
				require.NoError(t, err)
			}
			require.NoError(t, server.Client(t).RPush(t.Context(), tag+"-plain", "a").Err())
			require.NoError(t, server.Client(t).RPush(t.Context(), tag+"-plain\nof two lines", "a").Err())
			for i, options := range [][]queue.PushOption{nil, {queue.In(time.Hour)}} {
				q, err := queue.New(server.Client(t), fmt.Sprintf("queue-%s*%d", tag, i))
				require.NoError(t, err)
				_, err = q.Push(t.Context(), "a", options...)
				require.NoError(t, err)
			}
			list, err := shardedlist.New(server.Client(t), "queue-"+tag+"-no-queue")
			require.NoError(t, err)
			_, err = list.RPush(t.Context(), "a")
			require.NoError(t, err)
			queues := "queue-" + tag + "*0\nqueue-" + tag + "*1\n"
			names := tag + "-plain\n" + tag + ":0\n" + tag + ":1\n" + tag + ":2\n"
			for args, want := range map[string]string{
				"llen " + tag:                names,
				"LRANGE " + tag + ":1":       tag + ":1\n",
				"lpop -0 " + tag:             names,
				"lpop x " + tag:              "", // a count
				"lset l 0 " + tag:            "",
				"del x y " + tag:             names,
				"rename x " + tag:            names,
				"blmpop 1 2 x " + tag:        names,
				"blmpop 1 2 x y " + tag:      "",
				"object encoding " + tag:     names,
				"info " + tag:                names,
				"restore " + tag:             names,
				"ls " + tag:                  names,
				"top " + tag:                 names,
				"ls x " + tag:                "",
				"script rpush " + tag:        names,
				"adopt " + tag:               tag + "-plain\n" + tag + ":0\n" + tag + ":2\n",
				"llen " + tag + "-no-such":   "",
				"script lpop " + tag:         names,
				"queue stats queue-" + tag:   queues,
				"queue PEEK queue-" + tag:    queues,
				"queue dead queue-" + tag:    queues,
				"queue retry queue-" + tag:   queues,
				"queue cancel queue-" + tag:  queues,
				"queue pause queue-" + tag:   queues,
				"queue resume queue-" + tag:  queues,
				"queue retry q queue-" + tag: "", // an id
				"llen queue-" + tag + "*":    queues,
				"llen queue-" + tag + "*0":   "queue-" + tag + "*0\n",
			} {
				complete := func() string {
					return (<-start(t.Context(), nil, append([]string{"__complete", "--redis", server.URL()}, strings.Split(args, " ")...)...)).out
				}
				// On a busy machine, its time may be over before it has found them.
				assert.Eventually(t, func() bool { return complete() == want+":4\n" }, time.Minute, time.Millisecond, "%s: %s", args, complete())
			}
		})
	}
}

// However many keys there are, and whatever the server does, completion ends.
func TestCompletionIsBounded(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	server := redistest.Start(t, redistest.Redis)
	pipe := server.Client(t).Pipeline()
	for i := range 3 * scanCount {
		pipe.HSet(t.Context(), fmt.Sprintf("{l%04d}:meta", i), "layout", "3 0 0 1 0 #")
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	assert.Len(t, listNames(t.Context(), server.Client(t), "l"), completionNames)
	server.Pause()
	defer server.Resume()
	started := time.Now()
	got := <-start(t.Context(), nil, "__complete", "--redis", server.Addr(), "llen", "l")
	assert.NotContains(t, got.out, "l0")
	assert.Less(t, time.Since(started), 10*completionTime)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Empty(t, listNames(ctx, server.Client(t), "l"))
}
