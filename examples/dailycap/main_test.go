package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/examples/internal/wire"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m).Run() }

// The first member's process crashes in the middle, others come, and then the day is over.
func TestTheNextDayBegins(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, tt := range map[string]struct {
			grant func(c Cap, ctx context.Context, member string) (bool, error)
			words string
			stuck bool
		}{
			"naive":  {Cap.naiveGrant, "pexpire", true},
			"script": {Cap.Grant, "ann", false},
		} {
			var faulty wire.Wire
			const window = 300 * time.Millisecond
			c := Cap{server.Client(t), uuid.NewString(), 2, window}
			crashes := Cap{server.Client(t, faulty.Through), c.name, c.Most, c.Window}
			faulty.On(tt.words, wire.Crash, nil)
			_, err := tt.grant(crashes, t.Context(), "ann")
			require.ErrorIs(t, err, wire.ErrCrashed, name)

			key := c.key()
			if tt.stuck {
				key = c.countKey()
			}
			for i := range 3 {
				_, err := tt.grant(c, t.Context(), fmt.Sprint("member ", i))
				require.NoError(t, err, name)
			}
			ttl := c.rdb.PTTL(t.Context(), key).Val()
			if tt.stuck {
				assert.Equal(t, time.Duration(-1), ttl, "the counter never expires")
				server.FastForward(2 * window)
				granted, err := tt.grant(c, t.Context(), "of the next day")
				require.NoError(t, err)
				assert.False(t, granted, "nor on any later day")
				continue
			}
			assert.Positive(t, ttl)
			server.FastForward(window)
			assert.Eventually(t, func() bool {
				granted, err := tt.grant(c, t.Context(), "of the next day")
				return err == nil && granted
			}, 10*time.Second, 10*time.Millisecond)
		}
	})
}

// A member's request is lost on its way, or its reply is: the member asks again.
func TestAMemberAsksAgain(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		var first, second wire.Wire
		c := Cap{server.Client(t), uuid.NewString(), 2, time.Hour}
		crashes, loses := c, c
		crashes.rdb, loses.rdb = server.Client(t, first.Through), server.Client(t, second.Through)

		first.On("incr", wire.Crash, nil)
		_, err := crashes.naiveGrant(t.Context(), "ann")
		require.ErrorIs(t, err, wire.ErrCrashed)
		granted, err := c.naiveGrant(t.Context(), "ann")
		require.NoError(t, err)
		assert.False(t, granted, "ann has not got it, and never will today")

		second.On("incr", wire.LoseReply, nil)
		_, err = loses.naiveGrant(t.Context(), "bob")
		require.NoError(t, err)
		assert.Equal(t, "2", c.rdb.Get(t.Context(), c.countKey()).Val(), "bob is counted twice")

		granted, err = loses.Grant(t.Context(), "ann")
		require.NoError(t, err)
		assert.True(t, granted)
		second.On("bob", wire.LoseReply, nil)
		for range 2 {
			granted, err = loses.Grant(t.Context(), "bob")
			require.NoError(t, err)
			assert.True(t, granted)
		}
		assert.Equal(t, 2, second.Struck())
		assert.EqualValues(t, 2, c.rdb.SCard(t.Context(), c.key()).Val())
		granted, err = c.Grant(t.Context(), "eve")
		require.NoError(t, err)
		assert.False(t, granted)
	})
}

func TestTheCapHoldsUnderLoad(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		c := Cap{server.Client(t), uuid.NewString(), 7, time.Hour}
		var granted atomic.Int64
		var group sync.WaitGroup
		for member := range 30 {
			group.Go(func() {
				got, err := c.Grant(t.Context(), fmt.Sprint(member))
				assert.NoError(t, err)
				if got {
					granted.Add(1)
				}
			})
		}
		group.Wait()
		assert.EqualValues(t, 7, granted.Load())
	})
}

func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), redistest.Start(t, redistest.Embedded).Client(t), &out))
	assert.Equal(t, "ann: true\nbob: true\neve: false\nann: true\nothers may try again in 24h0m0s\n", out.String())
}
