package web

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/survey"
)

const (
	surveyShare = 0.004  // of a core that finding all lists may cost the server
	shownShare  = 0.0015 // and looking again at those that viewers see

	idleAfter    = 20 * time.Second // without a viewer, nothing begins
	givenUpAfter = 2 * time.Minute  // and a survey is given up: Prometheus may come once a minute
	surveyPause  = 2 * time.Second  // between two surveys, and between two looks
	shownFor     = 5 * time.Second  // a viewer asks again well before
	pointEvery   = time.Second      // at most, of each list
	maxTrend     = 40               // points that are kept of each list
	lookAtMost   = 20               // lists in one look
)

// feed keeps what the survey has found, for all viewers. It looks while somebody looks at it, and else sends nothing.
type feed struct {
	slow, shown redis.UniversalClient // for the survey, and for lists that viewers see; both are paced

	mu      sync.Mutex
	lists   map[string]*listed
	viewed  time.Time // when a viewer came last
	come    chan struct{}
	running bool // a survey
	found   int  // lists by the survey that runs
	ended   time.Time
	took    time.Duration
	failed  error         // the last survey
	tried   chan struct{} // closed when a survey has ended or failed
	away    error         // of the last look
	orders  map[order]*ordered
}

// listed is a list that the survey has found.
type listed struct {
	row    survey.Row
	before survey.Row // that the next rate is told from
	trend  []point
	pass   time.Time // when the survey began that found it last
	shown  time.Time // to a viewer
}

// point is what a chart shows of a moment.
type point struct {
	At     int64    `json:"at"` // in milliseconds
	Length int64    `json:"length"`
	In     *float64 `json:"in"` // elements per second since the point before; nil if that is not known
	Out    *float64 `json:"out"`
	Exact  bool     `json:"exact"` // or both are the least that explains the length
}

// newFeed returns a feed of the lists of a server.
func newFeed(client redis.UniversalClient) *feed {
	return &feed{
		slow: pacedClient(client, surveyShare, time.Second), shown: pacedClient(client, shownShare, 50*time.Millisecond),
		lists: map[string]*listed{}, come: make(chan struct{}), tried: make(chan struct{}), orders: map[order]*ordered{},
	}
}

// run looks while there are viewers, until ctx ends.
func (f *feed) run(ctx context.Context) {
	var both sync.WaitGroup
	for _, step := range []func(context.Context){f.survey, f.lookAgain} {
		both.Go(func() {
			for f.awaitViewer(ctx) {
				step(ctx)
				pauseFor(ctx, surveyPause)
			}
		})
	}
	both.Wait()
	_, _ = f.slow.Close(), f.shown.Close()
}

// view notes that there is a viewer.
func (f *feed) view() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.viewed = time.Now()
	close(f.come)
	f.come = make(chan struct{})
}

// awaitViewer waits until somebody looks, and reports whether somebody does before ctx ends.
func (f *feed) awaitViewer(ctx context.Context) bool {
	f.mu.Lock()
	viewed, come := time.Since(f.viewed) < idleAfter, f.come
	f.mu.Unlock()
	if !viewed {
		select {
		case <-come:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

var errNobodyLooks = errors.New("nobody looks")

// survey finds all lists.
func (f *feed) survey(ctx context.Context) {
	start := time.Now()
	f.mu.Lock()
	f.running, f.found = true, 0
	f.mu.Unlock()
	err := f.findAll(ctx, start)

	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = false
	if err == errNobodyLooks {
		return
	}
	close(f.tried)
	f.tried = make(chan struct{})
	if f.failed = err; err != nil {
		return
	}
	f.ended, f.took = time.Now(), time.Since(start)
	for name, l := range f.lists {
		if l.pass != start {
			delete(f.lists, name)
		}
	}
}

func (f *feed) findAll(ctx context.Context, start time.Time) error {
	strays := map[string]bool{} // the lists beside which there are some, of which a survey tells at its end
	for row, err := range survey.Rows(ctx, f.slow, survey.Options{}) {
		if err != nil {
			return err
		}
		f.mu.Lock()
		if known := f.lists[row.Name]; row.Strays > 0 {
			strays[row.Name] = true
		} else if known != nil {
			row.Strays = known.row.Strays
		}
		f.note(row).pass = start
		if !row.Again {
			f.found++
		}
		idle := time.Since(f.viewed) > givenUpAfter
		f.mu.Unlock()
		if idle {
			return errNobodyLooks
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, l := range f.lists {
		if !strays[name] {
			l.row.Strays = 0
		}
	}
	return nil
}

// lookAgain looks at the lists that viewers see.
func (f *feed) lookAgain(ctx context.Context) {
	err := f.lookAtShown(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = err
}

func (f *feed) lookAtShown(ctx context.Context) error {
	var names []string
	f.mu.Lock()
	for name, l := range f.lists {
		if time.Since(l.shown) < shownFor {
			names = append(names, name)
		}
	}
	f.mu.Unlock()
	for some := range slices.Chunk(names, lookAtMost) {
		rows, err := survey.Look(ctx, f.shown, some, survey.Options{WithoutBytes: true})
		if err != nil {
			return err
		}
		f.noteAll(some, rows)
	}
	if len(names) == 0 {
		return f.shown.Ping(ctx).Err() // is the server there?
	}
	return nil
}

// noteAll notes what a look at some lists has found. Those that are not there any more are empty, until the survey misses them.
func (f *feed) noteAll(names []string, rows []survey.Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := map[string]bool{}
	for _, row := range rows {
		there[row.Name] = true
		if known := f.lists[row.Name]; known != nil {
			row.Bytes, row.Strays = known.row.Bytes, known.row.Strays
			f.note(row)
		}
	}
	for _, name := range names {
		if known := f.lists[name]; known != nil && !there[name] && known.row.Strays == 0 {
			f.note(survey.Row{Name: name, Form: known.row.Form, Slot: known.row.Slot, Node: known.row.Node, At: time.Now(), LookedAgo: -1})
		}
	}
}

// note keeps a row, if it is later than what is known. Both the survey and the looks bring rows: two at nearly the same time make no rate.
func (f *feed) note(row survey.Row) *listed {
	l := f.lists[row.Name]
	if l == nil {
		l = &listed{}
		f.lists[row.Name] = l
	}
	if row.At.Before(l.row.At) {
		l.row.Bytes = row.Bytes
		if row.Again {
			l.row.Strays = row.Strays
		}
		return l
	}
	l.row = row
	if row.At.UnixMilli()-l.last().At >= pointEvery.Milliseconds() {
		l.trend = append(l.trend[max(0, len(l.trend)-maxTrend+1):], pointOf(&l.before, row))
	}
	return l
}

// longest is between two points that a rate is told from.
const longest = 10 * time.Minute

// pointOf returns the point of a look at a list, and notes it as the one that the next rate is told from. While an end of a list that is
// spread is about to move, what came in and went out cannot be told: the next look tells for both.
func pointOf(before *survey.Row, row survey.Row) point {
	p := point{At: row.At.UnixMilli(), Length: row.Length}
	if row.Head < 0 {
		return p
	}
	seconds := row.At.Sub(before.At).Seconds()
	if before.Name != "" && seconds > 0 && seconds < longest.Seconds() {
		in, out, exact := survey.Flow(*before, row)
		inRate, outRate := float64(in)/seconds, float64(out)/seconds
		p.In, p.Out, p.Exact = &inRate, &outRate, exact
	}
	*before = row
	return p
}

// order is in which order a viewer wants which lists.
type order struct {
	match, by string
	down      bool
}

// ordered are the names of lists in an order.
type ordered struct {
	names []string
	at    time.Time
}

const (
	orderedFor = time.Second // viewers who want the same order share it
	maxOrders  = 32
)

// page returns some lists in an order, and how many there are in all.
func (f *feed) page(o order, offset, limit int) (page []listed, total int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.orders[o]
	if known == nil || time.Since(known.at) > orderedFor {
		known = &ordered{f.sorted(o), time.Now()}
		if len(f.orders) >= maxOrders {
			clear(f.orders)
		}
		f.orders[o] = known
	}
	names := known.names[min(offset, len(known.names)):]
	for _, name := range names[:min(limit, len(names))] {
		if l := f.lists[name]; l != nil {
			l.shown = time.Now()
			page = append(page, *l)
		}
	}
	return page, len(known.names)
}

// sorted returns the names of the lists that a viewer wants, in the order in which he wants them.
func (f *feed) sorted(o order) []string {
	matches := matcher(o.match)
	chosen := make([]*listed, 0, len(f.lists))
	for name, l := range f.lists {
		if matches(name) {
			chosen = append(chosen, l)
		}
	}
	by := columns[o.by]
	slices.SortFunc(chosen, func(a, b *listed) int {
		c := 0
		if by != nil {
			c = cmp.Compare(by(a), by(b))
		}
		if o.down {
			c = -c
		}
		return cmp.Or(c, strings.Compare(a.row.Name, b.row.Name))
	})
	names := make([]string, len(chosen))
	for i, l := range chosen {
		names[i] = l.row.Name
	}
	if by == nil && o.down {
		slices.Reverse(names)
	}
	return names
}

// columns are what lists can be sorted by, beside their names.
var columns = map[string]func(l *listed) float64{
	"length": func(l *listed) float64 { return float64(l.row.Length) },
	"shards": func(l *listed) float64 { return float64(l.row.Shards) },
	"bytes":  func(l *listed) float64 { return float64(l.row.Bytes) },
	"in":     func(l *listed) float64 { return rate(l.last().In) },
	"out":    func(l *listed) float64 { return rate(l.last().Out) },
	"ttl":    func(l *listed) float64 { return float64(l.row.TTL) },
}

func rate(r *float64) float64 {
	if r == nil {
		return -1
	}
	return *r
}

// last is the last point of a list.
func (l *listed) last() point {
	if len(l.trend) == 0 {
		return point{}
	}
	return l.trend[len(l.trend)-1]
}

// trend returns what the survey has seen of a list.
func (f *feed) trend(name string) []point {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.lists[name]; l != nil {
		return slices.Clone(l.trend)
	}
	return nil
}

const (
	isFresh   = 5 * time.Second // so long ago a survey may have ended whose rows a scrape returns
	freshWait = 5 * time.Second // for the next one otherwise: Prometheus waits for ten
)

// fresh waits until a survey has ended of late, but not for long. It returns why the rows do not tell how the lists are. Where a survey
// takes longer, those of the last one do, if viewers have kept surveys going since.
func (f *feed) fresh(ctx context.Context) error {
	f.mu.Lock()
	tried, wait := f.tried, f.failed != nil || time.Since(f.ended) > isFresh
	f.mu.Unlock()
	if wait {
		select {
		case <-tried:
		case <-time.After(freshWait):
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failed != nil:
		return f.failed
	case f.ended.IsZero():
		return errors.New("the first survey has not ended yet")
	case time.Since(f.ended) > f.took+givenUpAfter:
		return errors.New("the first survey since somebody looked last has not ended yet")
	}
	return nil
}

// all returns the rows of all lists, sorted by name.
func (f *feed) all() []survey.Row {
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := make([]survey.Row, 0, len(f.lists))
	for _, l := range f.lists {
		rows = append(rows, l.row)
	}
	slices.SortFunc(rows, func(a, b survey.Row) int { return strings.Compare(a.Name, b.Name) })
	return rows
}
