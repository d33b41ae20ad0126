package oneslot

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	transfers      = map[layout.Transfer]*script.Script{layout.Rename: script.Load("rename"), layout.Copy: script.Load("copy")}
	copyStepScript = script.Load("copy_step")
)

// CopyLife is how long the shards stay that steps of COPY have copied, if their client dies.
const CopyLife = 3 * time.Minute

const (
	// copyAtOnce is how many shards one script copies, of lists that have more, and maxCopyStep how many a step does at the most.
	copyAtOnce  = 16
	maxCopyStep = 64
	copyWithin  = CopyLife / 2 // for so long steps may copy
)

// Transfer renames or copies the list.
func (l *List) Transfer(how layout.Transfer, to layout.List, replace bool) (session.Operation, error) {
	lists, err := several([]layout.List{l, to})
	if err != nil {
		return session.Operation{}, err
	}
	mode := ""
	if replace {
		mode = "replace"
	}
	build := func(known string) session.Operation {
		op := operationOn(lists, transfers[how], 2)
		op.Append(mode, known)
		op.Finish = func(ctx context.Context, reply any) (any, error) {
			verdict, done := reply.(int64)
			if !done {
				return reply, nil
			}
			lists[1].continueExpiry(ctx, verdict)
			return verdict != verdictNo, nil
		}
		return op
	}
	op := build(allAtOnce)
	if how == layout.Copy {
		op.Alone = func(ctx context.Context) (any, error) { return l.copyInSteps(ctx, lists[1].keys.Prefix, build) }
	}
	return op, nil
}

// copyInSteps copies the shards of a long list in steps, to keys with that prefix, before the script that build makes does the rest.
func (l *List) copyInSteps(ctx context.Context, prefix string, build func(known string) session.Operation) (any, error) {
	most := min(copyAtOnce, l.SearchStep)
	reply, err := build(strconv.Itoa(most)).Run(ctx)
	if reply != needsMore || !script.IsDone(err) {
		return reply, err
	}
	id := uuid.NewString()
	c := copier{began: time.Now()}
	c.searcher = searcher{list: l, search: search{direction: 1}, pace: pace{size: 1, least: 1, most: maxCopyStep, time: searchTime, tries: 3}, look: c.copy}
	defer c.end(ctx)
	for round := range searchRounds {
		// What a failover undoes may be the second copy of a shard, and not the first. So no shard is copied twice under one name.
		c.prefix, c.ranges = fmt.Sprintf("%s#%s.%d:", prefix, id[len(id)-12:], round+1), nil
		if possible, err := c.run(ctx); err != nil {
			return nil, err
		} else if !possible || time.Since(c.began) > copyWithin {
			break
		}
		if reply, err = build(c.words(most, c.prefix)).Run(ctx); reply != needsMore || !script.IsDone(err) {
			if script.IsDone(err) {
				c.note = "" // the script has dropped it
			}
			return reply, err
		}
	}
	l.stats.SearchedAtOnce()
	return build(allAtOnce).Run(ctx)
}

// copier is a searcher that copies what it reads.
type copier struct {
	searcher
	prefix string // of the copies
	began  time.Time
}

// copy copies some of the shards.
func (c *copier) copy(ctx context.Context, todo shards) (read shards, _, _ int64, err error) {
	if time.Since(c.began) > copyWithin {
		return read, 0, 0, errNoNote
	}
	start := time.Now()
	reply, err := c.send(ctx, copyStepScript, todo.from, todo.to, c.pace.size, c.note, c.prefix, CopyLife.Milliseconds())
	if err != nil {
		return read, 0, 0, err
	} else if reply == needsMore {
		return read, 0, 0, errNoNote
	}
	c.pace.adapt(time.Since(start))
	last, err := strconv.ParseInt(reply.(string), 10, 64)
	if err != nil {
		return read, 0, 0, fmt.Errorf("%w: %w", session.ErrReplyLost, err)
	}
	read = shards{todo.from, last}
	c.learn(read)
	return read, 0, 0, nil
}
