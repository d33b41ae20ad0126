package spread

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
)

var (
	repairScript = script.Load("spread_repair")
	mendScript   = script.Load("spread_mend")
)

// maxRepairs is how often pointers are set, since clients that have older ones may leave shards outside again.
const maxRepairs = 3

// Repair lets the pointers enclose all shards of the list, and mends what is between them. It returns what Check has found, and what it
// finds then.
func (l *List) Repair(ctx context.Context, how layout.Repair) (report []string, err error) {
	for try := 0; ; try++ {
		err := l.Check(ctx)
		if errors.Is(err, layout.ErrBroken) && try == 0 {
			report = strings.Split(err.Error(), "\n")
		}
		if !errors.Is(err, layout.ErrBroken) || try == maxRepairs || how.DryRun {
			return report, err
		}
		p, found, problem := l.enclose(ctx)
		switch {
		case problem != nil:
			return report, problem
		case !found:
			return report, err // a repair mends nothing here
		case p != nil:
			if err := l.mend(ctx, p); err != nil {
				return report, err
			}
		}
	}
}

// enclose sets the pointers, and reports whether it has found shards to enclose. It returns nil if the list has become another meanwhile.
func (l *List) enclose(ctx context.Context) (p *pointers, found bool, err error) {
	if p, err = l.settled(ctx); err != nil {
		return nil, false, err
	}
	e, err := l.extent(ctx, p)
	if err != nil || e == nil {
		return nil, false, err
	}
	q := &pointers{parts: e.parts, generation: e.generation, ids: [2]int64{e.ends[left].id, e.ends[right].id}}
	known := any("")
	if p != nil {
		known, q.capacity = p.generation, p.capacity
	} else if q.capacity, err = l.config.Capacity(ctx); err != nil {
		return nil, true, err
	}
	q.word = fmt.Sprintf("%d %d %d 0 0 0 0 %d", q.generation, q.ids[left], q.ids[right], q.capacity)
	for side, id := range q.ids {
		if s, err := l.look(ctx, q, id, "L", 1, 0); err != nil {
			return nil, true, err
		} else if s != nil {
			q.borders[side] = s.borders[1-side]
		}
	}
	if err := l.lock(ctx); err != nil {
		return nil, true, err
	}
	defer l.unlock()
	now := time.Now()
	reply, err := l.runOnMeta(ctx, repairScript, known, q.parts, q.capacity, q.generation, q.ids[left], q.ids[right], q.borders[left],
		q.borders[right], e.epoch+1)
	if err != nil {
		return nil, true, err
	}
	p, err = readPointers(reply, now)
	l.remember(p)
	return p, true, err
}

// settled reads the pointers, and ends a delete that is under way.
func (l *List) settled(ctx context.Context) (*pointers, error) {
	if err := l.lock(ctx); err != nil {
		return nil, err
	}
	defer l.unlock()
	if _, err := l.refresh(ctx, false); err != nil {
		return nil, err
	}
	return l.readMeta(ctx, false)
}

// extent is where the shards of a generation are.
type extent struct {
	parts, generation int64
	ends              [2]state
	epoch             int64 // the newest that a shard or a part has seen
}

// extent looks for the shards of the list: those of the generation that meta has; or if that has none, of a later one; or if meta is lost,
// of the latest. One whose ends are both closed has been deleted.
func (l *List) extent(ctx context.Context, p *pointers) (*extent, error) {
	parts := int64(l.config.Parts)
	if p != nil {
		parts = p.parts
	}
	all := map[int64]*extent{}
	mark, err := l.scan(ctx, parts, func(s state) {
		if p != nil && s.generation != p.generation && p.names(s.address) {
			return
		}
		e := all[s.generation]
		if e == nil {
			e = &extent{parts: parts, generation: s.generation, ends: [2]state{s, s}}
			all[s.generation] = e
		}
		e.epoch = max(e.epoch, s.epoch)
		if s.id < e.ends[left].id {
			e.ends[left] = s
		}
		if s.id > e.ends[right].id {
			e.ends[right] = s
		}
	})
	if err != nil {
		return nil, err
	}
	var found *extent
	latest := int64(0)
	if p != nil {
		latest = p.generation
		found = all[latest]
	}
	if found == nil {
		for generation, e := range all {
			if generation > latest && (e.ends[left].open[left] || e.ends[right].open[right]) {
				found, latest = e, generation
			}
		}
	}
	if found != nil {
		found.epoch = max(found.epoch, mark)
	}
	return found, nil
}

// mend closes what is between the ends, makes shards that are missing, and lets the positions of each begin where those of the one before
// end.
func (l *List) mend(ctx context.Context, p *pointers) error {
	if p.ids[left] == p.ids[right] {
		return nil
	}
	one := func(id int64, begins any) (borders []any, err error) {
		reply, err := l.run(ctx, l.onShard(p, mendScript, id, id, begins))
		if err == nil && reply != nil {
			borders = reply.([]any)
		}
		return borders, err
	}
	begins := any("")
	for id := p.ids[left]; id <= p.ids[right]; id++ {
		borders, err := one(id, begins)
		if err != nil {
			return err
		}
		if borders == nil {
			continue
		}
		for before := id - 1; begins == "" && before >= p.ids[left]; before-- { // those before the first that is there
			if _, err := one(before, borders[0]); err != nil {
				return err
			}
		}
		begins = borders[1]
	}
	return nil
}
