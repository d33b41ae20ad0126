package main

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/survey"
)

// A look takes a tenth of the time at most, and a scan for other lists a twentieth, however many lists and keys there are.
const (
	lookShare = 10
	scanShare = 20
)

// monitor looks at lists again and again. Most looks are at those that are known. A scan finds others, and measures all.
type monitor struct {
	rdb      redis.UniversalClient
	match    string
	interval time.Duration

	known    []survey.Row
	scanned  time.Time     // when the last scan ended
	scanTook time.Duration // how long it took
	lookTook time.Duration // the last look that was no scan
}

// topRow is a list, and its elements per second since the look before.
type topRow struct {
	survey.Row
	in, out float64
	exact   bool
}

func (t *top) monitor() *monitor {
	return &monitor{rdb: t.rdb, match: t.match, interval: t.interval}
}

// look returns the lists that are there now. The first look tells how far it is.
func (m *monitor) look(ctx context.Context, progress func(looked, keys int64)) ([]topRow, error) {
	before := make(map[string]survey.Row, len(m.known))
	for _, row := range m.known {
		before[row.Name] = row
	}
	rows, err := m.rows(ctx, before, progress)
	if err != nil {
		return nil, err
	}
	m.known = rows
	result := make([]topRow, len(rows))
	for i, row := range rows {
		result[i] = topRow{Row: row}
		if was, found := before[row.Name]; found {
			in, out, exact := survey.Flow(was, row)
			seconds := max(row.At.Sub(was.At).Seconds(), 1e-3)
			result[i].in, result[i].out, result[i].exact = float64(in)/seconds, float64(out)/seconds, exact
		}
	}
	return result, nil
}

// rows looks at the lists that were there before, or scans if it is time to.
func (m *monitor) rows(ctx context.Context, before map[string]survey.Row, progress func(looked, keys int64)) (rows []survey.Row, err error) {
	began := time.Now()
	if m.scanned.IsZero() || began.Sub(m.scanned) >= scanShare*m.scanTook {
		if !m.scanned.IsZero() {
			progress = nil
		}
		for row, err := range survey.Rows(ctx, m.rdb, survey.Options{Match: m.match, Progress: progress}) {
			if err != nil {
				return nil, err
			}
			if row.Again {
				rows = slices.DeleteFunc(rows, func(r survey.Row) bool { return r.Name == row.Name })
			}
			rows = append(rows, row)
		}
		m.scanned = time.Now()
		m.scanTook = m.scanned.Sub(began)
		return rows, nil
	}
	names := make([]string, len(m.known))
	for i, row := range m.known {
		names[i] = row.Name
	}
	if rows, err = survey.Look(ctx, m.rdb, names, survey.Options{WithoutBytes: true}); err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for i, row := range rows {
		rows[i].Bytes, rows[i].Strays = before[row.Name].Bytes, before[row.Name].Strays
		there[row.Name] = true
	}
	for _, row := range m.known {
		if row.Strays > 0 && !there[row.Name] { // only a survey finds them
			rows = append(rows, row)
		}
	}
	m.lookTook = time.Since(began)
	return rows, nil
}

// pause is how long to wait for the next look.
func (m *monitor) pause() time.Duration { return max(m.interval, (lookShare-1)*m.lookTook) }

const (
	insideElements = 10      // that are shown of each end of a list,
	insideBytes    = 1 << 20 // or fewer, if so many take more than that
	insideWidth    = 500     // bytes that are shown of an element
)

// listEnds are elements at both ends of a list.
type listEnds struct {
	name        string
	left, right []string
	err         error
	at          time.Time // when they were asked for
}

// readEnds reads elements at both ends.
func readEnds(ctx context.Context, rdb redis.UniversalClient, row topRow) listEnds {
	found := listEnds{name: row.Name, at: time.Now()}
	list, err := shardedlist.New(rdb, row.Name)
	if err != nil {
		found.err = err
		return found
	}
	wanted := int64(insideElements)
	if row.Bytes > 0 {
		wanted = max(1, min(wanted, insideBytes*row.Length/row.Bytes))
	}
	if found.left, found.err = list.LRange(ctx, 0, wanted-1); found.err == nil && row.Length > wanted {
		found.right, found.err = list.LRange(ctx, -min(wanted, row.Length-wanted), -1)
	}
	return found
}
