package limit

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
)

var dayScript = script.Load("limit_day")

// DailyCap admits a number of members a day: users who may use a trial, addresses that may be written to. A member counts once
// a day, however often it is added.
//
// A day begins and ends at midnight in a location, also when its clocks are set forward or back. The server's clock decides
// which day it is.
//
// It costs O(1) time, and about 90 bytes for each short member, until an hour after the day.
type DailyCap struct {
	*limiter
	most     int64
	location *time.Location
}

// Addition is what has become of a member that was added.
type Addition struct {
	// Allowed reports whether the member counts today: this call has added it, or one before.
	Allowed bool
	// New reports whether this call has added it.
	New bool
	// Remaining is how many more members may be added today.
	Remaining int64
	// RetryAfter is the time until the next day, if the member was refused; otherwise 0.
	RetryAfter time.Duration
}

// NewDailyCap returns a limiter that admits up to most members on each day of the location. It sends nothing.
//
// It returns ErrLimit for a nil client, an empty name, a number below 1, or a nil location.
func NewDailyCap(rdb redis.UniversalClient, name string, most int64, location *time.Location) (*DailyCap, error) {
	if err := checkNumber(most, maxNumber); err != nil {
		return nil, err
	}
	if location == nil {
		return nil, invalid("the location is nil")
	}
	l, err := newLimiter(rdb, name, "day")
	if err != nil {
		return nil, err
	}
	return &DailyCap{l, most, location}, nil
}

// Add adds a member, which may be any string, to those of today, unless there are as many as may be. A member that is there
// already is allowed, and counts once. It costs O(1).
//
// A call whose reply is lost is sent again, and knows by an id of its own whether it was the one that added the member. If ctx
// ends before the server has answered, it returns the error of ctx; the member may have been added. If the server's memory is
// full, it returns the server's error, and nothing was added.
func (c *DailyCap) Add(ctx context.Context, member string) (Addition, error) {
	day, now, reply, err := c.today(ctx, member, uuid.NewString())
	if err != nil {
		return Addition{}, c.wrap("add", err)
	}
	count, _ := reply[1].(int64)
	addition := Addition{Allowed: reply[2] != "none", New: reply[2] == "new", Remaining: max(0, c.most-count)}
	if !addition.Allowed {
		addition.RetryAfter = day.end.Sub(now)
	}
	return addition, nil
}

// Count returns how many members there are today: 0 if none was added. It costs O(1).
func (c *DailyCap) Count(ctx context.Context) (int64, error) {
	_, _, reply, err := c.today(ctx)
	if err != nil {
		return 0, c.wrap("count", err)
	}
	count, _ := reply[1].(int64)
	return count, nil
}

// maxDays is how many days a call tries. It needs a second one if the client's clock is on another day than the server's, and a
// third if that one ends meanwhile.
const maxDays = 5

var errDays = errors.New("the server's clock did not stay on one day")

// today runs the script on today, that of the server's clock. It returns the reply of that day, and the server's time.
func (c *DailyCap) today(ctx context.Context, args ...any) (day, time.Time, []any, error) {
	now := time.Now()
	for range maxDays {
		d := dayOf(now, c.location)
		call := script.NewCall(dayScript, []any{c.key(d)}, 3+len(args))
		call.Args = append(append(call.Args, d.start.UnixMicro(), d.end.UnixMicro(), c.most), args...)
		reply, err := promptly(ctx, func(ctx context.Context) ([]any, error) {
			reply, _, err := c.repeat(ctx, call)
			words, _ := reply.([]any)
			return words, err
		}, func([]any, error) {})
		if err != nil {
			return day{}, now, nil, err
		}
		if len(reply) == 0 {
			return day{}, now, nil, fmt.Errorf("a reply of an unknown form: %v", reply)
		}
		microseconds, _ := reply[0].(int64)
		now = time.UnixMicro(microseconds)
		if len(reply) == 3 {
			return d, now, reply, nil
		}
	}
	return day{}, now, nil, errDays
}

// key returns the key of a day. It names the beginning with its offset, so that no two days share a key.
func (c *DailyCap) key(d day) string {
	return c.prefix + d.start.In(c.location).Format(time.RFC3339) + "/meta"
}

// day is a day of a location, from its first moment to that of the next one.
type day struct{ start, end time.Time }

// dayOf returns the day that a moment is in. Midnight may not exist on a day, or come twice. So it searches for the first
// second that has the date, and the first that has a later one.
func dayOf(now time.Time, location *time.Location) day {
	date := dateOf(now, location)
	const most = 50 * 3600 // no day is as long, in seconds
	second := now.Unix()
	start := second - most + int64(sort.Search(most, func(i int) bool { return dateOf(time.Unix(second-most+int64(i), 0), location) >= date }))
	end := second + 1 + int64(sort.Search(most, func(i int) bool { return dateOf(time.Unix(second+1+int64(i), 0), location) > date }))
	return day{time.Unix(start, 0), time.Unix(end, 0)}
}

// dateOf returns the date of a moment as one number that grows.
func dateOf(moment time.Time, location *time.Location) int {
	year, month, date := moment.In(location).Date()
	return year*10000 + int(month)*100 + date
}
