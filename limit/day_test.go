package limit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
)

// Many clients add many members, each several times. Exactly as many as may be are added, each by one call, and the server has
// them and no others.
func TestADailyCapCountsEachMemberOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		name := newName(t, rdb)
		location, err := time.LoadLocation("Pacific/Kiritimati") // its day is another one for most of UTC's
		require.NoError(t, err)
		var added, old, refused atomic.Int64
		var running sync.WaitGroup
		for range 20 {
			c, err := NewDailyCap(server.Client(t), name, 30, location)
			require.NoError(t, err)
			running.Go(func() {
				for i := range 40 {
					a, err := c.Add(soon(t), fmt.Sprint("member ", i))
					assert.NoError(t, err)
					switch {
					case a.New:
						added.Add(1)
					case a.Allowed:
						old.Add(1)
					default:
						refused.Add(1)
						assert.Positive(t, a.RetryAfter)
						assert.LessOrEqual(t, a.RetryAfter, 24*time.Hour)
						assert.Zero(t, a.Remaining)
					}
				}
			})
		}
		running.Wait()
		assert.Equal(t, int64(30), added.Load())
		assert.Equal(t, int64(19*30), old.Load())
		assert.Equal(t, int64(20*10), refused.Load())
		c, err := NewDailyCap(rdb, name, 30, location)
		require.NoError(t, err)
		count, err := c.Count(soon(t))
		require.NoError(t, err)
		assert.Equal(t, int64(30), count)
		keys := keysOf(t, rdb, name)
		require.Len(t, keys, 1)
		members, err := rdb.HLen(soon(t), keys[0]).Result()
		require.NoError(t, err)
		assert.Equal(t, int64(30), members)
	})
}

// The server's clock decides which day it is. The embedded server's clock can be set.
func TestTheServersClockDecidesTheDay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Embedded)
	rdb := server.Client(t)
	c, err := NewDailyCap(rdb, newName(t, rdb), 1, time.UTC)
	require.NoError(t, err)
	for i, moment := range []string{
		"2031-03-01T00:00:00Z", "2031-03-01T23:59:59Z", "2031-03-02T00:00:00Z", "1999-12-31T23:59:59Z", "2000-01-01T00:00:00Z",
	} {
		now, err := time.Parse(time.RFC3339, moment)
		require.NoError(t, err)
		server.Miniredis().SetTime(now)
		a, err := c.Add(soon(t), moment)
		require.NoError(t, err)
		assert.Equal(t, i != 1, a.New, moment)
		if i == 1 {
			assert.Equal(t, time.Second, a.RetryAfter)
		}
	}
}

// A call for another day than that of the server's clock changes nothing, at the first moment of the next day too.
func TestACallOfAnotherDayChangesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Embedded)
	rdb := server.Client(t)
	c, err := NewDailyCap(rdb, newName(t, rdb), 1, time.UTC)
	require.NoError(t, err)
	midnight := time.Date(2031, 3, 2, 0, 0, 0, 0, time.UTC)
	d := dayOf(midnight, time.UTC)
	for _, tt := range []struct {
		now  time.Time
		want int
	}{{midnight.Add(-time.Microsecond), 1}, {midnight, 3}, {d.end.Add(-time.Microsecond), 3}, {d.end, 1}} {
		server.Miniredis().SetTime(tt.now)
		call := script.NewCall(dayScript, []any{c.key(d)}, 3)
		call.Args = append(call.Args, d.start.UnixMicro(), d.end.UnixMicro(), 1)
		reply, err := c.runner.Once(soon(t), call)
		require.NoError(t, err)
		assert.Len(t, reply, tt.want, "%v", tt.now)
	}
}

// A day begins and ends where the date changes, whatever the clocks of its location do.
func TestDaysOfOddLocations(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ location, now, start, end string }{
		{"UTC", "2026-03-01T12:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		{"UTC", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		{"UTC", "2026-03-01T23:59:59.999999Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		{"Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"}, // 23 hours
		{"Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"}, // 25 hours
		{"America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"America/Sao_Paulo", "2018-02-17T12:00:00Z", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"America/Havana", "2026-11-01T12:00:00Z", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"}, // midnight comes twice
		{"Pacific/Apia", "2011-12-29T23:00:00Z", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},   // a day was left out
		{"Asia/Kathmandu", "2026-06-01T12:00:00Z", "2026-06-01T00:00:00+05:45", "2026-06-02T00:00:00+05:45"},
	} {
		location, err := time.LoadLocation(tt.location)
		require.NoError(t, err)
		moment := func(text string) time.Time {
			moment, err := time.Parse(time.RFC3339, text)
			require.NoError(t, err)
			return moment
		}
		got := dayOf(moment(tt.now), location)
		assert.True(t, got.start.Equal(moment(tt.start)), "%s %s begins at %v", tt.location, tt.now, got.start.In(location))
		assert.True(t, got.end.Equal(moment(tt.end)), "%s %s ends at %v", tt.location, tt.now, got.end.In(location))
	}
}

// Windows begin with those of the clock, and end before the next begins. The embedded server's clock can be set.
func TestAFixedWindowIsAlignedToTheServersClock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Embedded)
	rdb := server.Client(t)
	w, err := NewFixedWindow(rdb, newName(t, rdb), 2, time.Minute)
	require.NoError(t, err)
	border := time.Date(2031, 3, 1, 12, 34, 0, 0, time.UTC)
	for _, step := range []struct {
		at         time.Duration
		n          int64
		allowed    bool
		remaining  int64
		retryAfter time.Duration
	}{
		{-time.Second, 1, true, 1, 0},
		{-time.Second, 2, false, 1, time.Second},
		{-time.Microsecond, 1, true, 0, 0},
		{-time.Microsecond, 1, false, 0, time.Microsecond},
		{0, 2, true, 0, 0}, // four within a microsecond
		{time.Second, 1, false, 0, 59 * time.Second},
		{-time.Second, 1, false, 0, 61 * time.Second}, // the clock was set back
		{59 * time.Second, 1, false, 0, time.Second},
		{time.Minute, 1, true, 1, 0},
	} {
		server.Miniredis().SetTime(border.Add(step.at))
		got, err := w.AllowN(soon(t), step.n)
		require.NoError(t, err)
		assert.Equal(t, Decision{step.allowed, step.remaining, step.retryAfter, border.Add(step.at).Local()}, got, "%+v", step)
	}
}

// The log and the bucket count by the clock of the server, to the microsecond. That of the embedded one can be set.
func TestWindowsAndBucketsCountToTheMicrosecond(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Embedded)
	rdb := server.Client(t)
	name := newName(t, rdb)
	w, err := NewSlidingWindow(rdb, name, 3, time.Second)
	require.NoError(t, err)
	b, err := NewTokenBucket(rdb, name, 3, 3*time.Second, 3)
	require.NoError(t, err)
	type step struct {
		at         time.Duration
		n          int64
		allowed    bool
		remaining  int64
		retryAfter time.Duration
	}
	begin := time.Date(2031, 3, 1, 12, 34, 0, 0, time.UTC)
	for kind, tt := range map[string]struct {
		r     *reserver
		steps []step
	}{
		"sliding": {&w.reserver, []step{
			{0, 2, true, 1, 0},
			{400 * time.Millisecond, 1, true, 0, 0},
			{time.Second - time.Microsecond, 1, false, 0, time.Microsecond},
			{time.Second - time.Microsecond, 3, false, 0, 400*time.Millisecond + time.Microsecond},
			{time.Second, 1, true, 1, 0},
			{1200 * time.Millisecond, 2, false, 1, 200 * time.Millisecond},
			{1400 * time.Millisecond, 2, true, 0, 0},
			{10 * time.Second, 1, true, 2, 0},
			{9 * time.Second, 1, false, 0, time.Second}, // the clock was set back
			{10 * time.Second, 2, true, 0, 0},
			{11*time.Second - time.Microsecond, 1, false, 0, time.Microsecond},
		}},
		"bucket": {&b.reserver, []step{
			{0, 2, true, 1, 0},
			{400 * time.Millisecond, 1, true, 0, 0},
			{time.Second - time.Microsecond, 1, false, 0, time.Microsecond},
			{time.Second, 1, true, 0, 0},
			{3 * time.Second, 3, false, 2, time.Second},
			{4*time.Second - time.Microsecond, 3, false, 2, time.Microsecond},
			{4 * time.Second, 3, true, 0, 0},
			{time.Hour, 3, true, 0, 0},
		}},
	} {
		for _, step := range tt.steps {
			server.Miniredis().SetTime(begin.Add(step.at))
			got, err := tt.r.AllowN(soon(t), step.n)
			require.NoError(t, err)
			assert.Equal(t, Decision{step.allowed, step.remaining, step.retryAfter, begin.Add(step.at).Local()}, got, "%s %+v", kind, step)
		}
	}
}
