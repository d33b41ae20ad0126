package limit

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

var totalCommands = regexp.MustCompile(`total_commands_processed:(\d+)`)

// Who waits sends nothing to the server: a Wait sleeps until its time, and who wants a share of a semaphore, or a lock, is woken.
func TestWhoWaitsSendsNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			rdb, name := server.Client(t), "waits"
			commands := func() int {
				found := totalCommands.FindStringSubmatch(rdb.Info(soon(t), "stats").Val())
				require.NotNil(t, found)
				number, err := strconv.Atoi(found[1])
				require.NoError(t, err)
				return number
			}

			semaphore := newSleeper(t, server, name, 1)
			held, err := semaphore.TryAcquire(soon(t))
			require.NoError(t, err)
			bucket, err := NewTokenBucket(rdb, name, 1, time.Hour, 1)
			require.NoError(t, err)
			sliding, err := NewSlidingWindow(rdb, name, 1, time.Hour)
			require.NoError(t, err)
			acquired := make(chan *Permit)
			go func() {
				p, err := semaphore.Acquire(soon(t))
				assert.NoError(t, err)
				acquired <- p
			}()
			waiting, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			for _, wait := range []func(context.Context) error{bucket.Wait, sliding.Wait} {
				require.NoError(t, wait(soon(t)))
				go func() { ended <- wait(waiting) }()
			}
			blocked(t, rdb, semaphore.holders)
			require.Eventually(t, func() bool {
				return rdb.HGet(soon(t), sliding.state(), "next").Val() == "3" && debt(t, rdb, bucket) > time.Hour
			}, patience, time.Millisecond)
			silent := false
			for tries := 0; tries < 3 && !silent; tries++ { // a connection may still introduce itself during the first
				before := commands()
				<-time.After(2 * time.Second)
				silent = commands() == before+1
			}
			assert.True(t, silent, "callers who wait send commands")
			cancel()
			for range 2 {
				assert.ErrorIs(t, <-ended, context.Canceled)
			}
			require.NoError(t, held.Release(soon(t)))
			require.NoError(t, (<-acquired).Release(soon(t)))
		})
	}
}
