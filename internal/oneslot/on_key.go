package oneslot

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
	"github.com/shardedlist/shardedlist/internal/value"
)

var onKeyScript = script.Load("on_key")

// changes are the callers that change a short list, each by commands that belong together. It is made when it is needed.
type changes struct {
	made    sync.Once
	kind    batch.Kind
	batcher *batch.Batcher
}

// OnKey implements layout.List.
func (l *List) OnKey(commands []layout.KeyCommand) (op session.Operation, ok bool) {
	if l.config.WithoutDedup || l.runner.Replicas > 0 || !l.runner.Mode().Functions {
		return op, false // go-redis would repeat what it repeats of no transaction; a pipeline waits for no replicas
	}
	words := l.wordsOnKey(commands)
	op = l.operation(onKeyScript, len(words))
	op.Append(words...)
	if words[1] != "" {
		op.Orders = l.bothEnds()
	}
	op.Finish = func(_ context.Context, reply any) (any, error) {
		if reply == "" {
			return nil, nil
		}
		return l.repliesOnKey(commands, strings.Split(reply.(string), "\n"))
	}
	op.Alone = func(ctx context.Context) (any, error) { return l.changeOnKey(ctx, commands, words) }
	return op, true
}

// wordsOnKey returns the words of a caller of on_key.lua.
func (l *List) wordsOnKey(commands []layout.KeyCommand) []any {
	size, adds, longest := 2, 0, 1
	for _, c := range commands {
		size += 2 + len(c.Words)
		adds += c.Adds
		longest = max(longest, c.Longest)
	}
	words := append(make([]any, 0, size), len(commands), "")
	if adds > 0 {
		words[1] = l.capacity.of(longest) - int64(adds)
	}
	for _, c := range commands {
		words = append(words, len(c.Words), c.Name)
		words = append(words, c.Words...)
	}
	return words
}

// changeOnKey carries out a caller's commands together with those of other callers that have come meanwhile.
func (l *List) changeOnKey(ctx context.Context, commands []layout.KeyCommand, words []any) (any, error) {
	l.changes.made.Do(func() {
		l.changes.kind = batch.Kind{Join: l.joinOnKey, Share: shareOnKey, Orders: l.bothEnds(), SharedBeside: true}
		l.changes.batcher = batch.New(l.sessions, &l.changes.kind)
	})
	r := batch.NewRequest()
	r.Values, r.Count = words, len(words)
	for _, word := range words {
		r.Bytes += value.Size(word)
	}
	err := l.changes.batcher.Do(ctx, r)
	if !script.IsDone(err) {
		return nil, err
	}
	lines := r.Elements
	r.Recycle()
	if lines == nil {
		return nil, err
	}
	return l.repliesOnKey(commands, lines)
}

func (l *List) joinOnKey(requests []*batch.Request) session.Operation {
	count := 0
	for _, r := range requests {
		count += r.Count
	}
	op := l.operation(onKeyScript, count)
	for _, r := range requests {
		op.Append(r.Values...)
	}
	op.Orders = l.bothEnds()
	return op
}

// shareOnKey gives each caller the replies to its commands, as far as there are any.
func shareOnKey(requests []*batch.Request, reply any) (surplus []string) {
	var lines []string
	if reply != "" {
		lines = strings.Split(reply.(string), "\n")
	}
	for _, r := range requests {
		if own := r.Values[0].(int); own <= len(lines) {
			r.Elements, lines = lines[:own:own], lines[own:]
		}
	}
	return nil
}

// bothEnds are the orders of operations that may add elements anywhere.
func (l *List) bothEnds() []*session.Order { return []*session.Order{&l.left.order, &l.right.order} }

// of returns the capacity of a list that outgrows its key by elements of which the longest has that many bytes, or somewhat less.
func (c *capacity) of(longest int) int64 {
	switch set := c.word().(int64); set {
	case bySize, byLargerSize:
		bytes := int64(shardBytes)
		if set == byLargerSize {
			bytes *= 4
		}
		return max(fewestBySize, min(mostBySize, bytes/int64(longest)))
	default:
		return set
	}
}

// repliesOnKey reads the lines of on_key.lua for the commands, and counts what they have pushed.
func (l *List) repliesOnKey(commands []layout.KeyCommand, lines []string) (any, error) {
	if len(lines) != len(commands) {
		return nil, fmt.Errorf("%w: %d commands have the replies %q", session.ErrReplyLost, len(commands), lines)
	}
	replies := make([]any, len(lines))
	for i, line := range lines {
		switch line[0] {
		case ':':
			n, err := strconv.ParseInt(line[1:], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", session.ErrReplyLost, err)
			}
			if replies[i] = n; n > 0 {
				l.stats.Elements(stats.Push, commands[i].Adds, 0)
			}
		case '+':
			replies[i] = line[1:]
		default:
			replies[i] = rediserr.Error(line[1:])
		}
	}
	return replies, nil
}
