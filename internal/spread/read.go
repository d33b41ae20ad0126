package spread

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	lookScript = script.Load("spread_look")
	setScript  = script.Load("spread_set")
	posScript  = script.Load("spread_pos")
)

// maxLooks is how often a reader begins anew because the list has changed under it, before it makes do with what there is.
const maxLooks = 3

// shard is what a look at a shard has found.
type shard struct {
	id       int64
	borders  [2]int64
	open     [2]bool
	elements []string
	expiry   expiry // what the shard knows of it
	now      int64  // the server's time, if there is an expiry
}

// look reads a shard, or returns nil if there is none, or the list has expired. from and to count from the border that base names, or
// from 0 if it is empty.
func (l *List) look(ctx context.Context, p *pointers, id int64, base any, from, to int64) (*shard, error) {
	reply, err := l.run(ctx, l.onShard(p, lookScript, id, id, base, from, to))
	if err != nil || reply == nil {
		return nil, err
	}
	s, rest := readShard(id, reply)
	for _, v := range rest {
		s.elements = append(s.elements, v.(string))
	}
	if text := reply.([]any)[5].(string); text != "" {
		_, err = fmt.Sscan(text, &s.expiry.time, &s.expiry.stamp, &s.now)
	}
	return s, err
}

func readShard(id int64, reply any) (*shard, []any) {
	fields := reply.([]any)
	s := &shard{id: id, borders: [2]int64{fields[0].(int64), fields[1].(int64)}}
	s.open = [2]bool{fields[2] == int64(1), fields[3] == int64(1)}
	return s, fields[4].([]any)
}

// lookAtEnd looks at the shard at an end, or returns nil if there is no list.
func (l *List) lookAtEnd(ctx context.Context, side int, from, to int64) (*pointers, *shard, error) {
	for try := 0; ; try++ {
		p, err := l.find(ctx, false)
		if err != nil || p == nil {
			return nil, nil, err
		}
		s, err := l.look(ctx, p, p.ids[side], sideWords[side], from, to)
		switch {
		case err != nil:
			return nil, nil, err
		case s != nil && (s.open[side] || try == maxLooks):
			return p, s, nil
		case try == maxLooks:
			return p, &shard{id: p.ids[side], borders: [2]int64{p.borders[side], p.borders[side]}}, nil
		}
		if err := l.catchUp(ctx, side, p); err != nil {
			return nil, nil, err
		}
	}
}

// again reads the pointers again, unless another caller has since.
func (l *List) again(ctx context.Context, p *pointers) error {
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	if l.cached.Load() != p {
		return nil
	}
	_, err := l.refresh(ctx, false)
	return err
}

// catchUp moves the pointer of an end that is not there, if meta still says that it is: whoever was to do so may have died. A pop of no
// elements finds out.
func (l *List) catchUp(ctx context.Context, side int, p *pointers) error {
	if err := l.again(ctx, p); err != nil || !l.cached.Load().sameAs(p) {
		return err
	}
	reply, err := l.ends[side].pop(p, 0, blocking.No, "").Run(ctx)
	if err != nil {
		return err
	}
	if _, word, _ := readPop(reply); goesOn(word) {
		return l.follow(ctx, side, word)
	}
	return nil
}

// Length counts the elements. It is exact if nobody changes the left end meanwhile.
func (l *List) Length() session.Operation {
	return session.Steps(func(ctx context.Context) (any, error) { return l.length(ctx) })
}

// Exists tells whether there is a list.
func (l *List) Exists() session.Operation {
	return session.Steps(func(ctx context.Context) (any, error) {
		length, err := l.length(ctx)
		return length > 0, err
	})
}

func (l *List) length(ctx context.Context) (int64, error) {
	_, first, last, err := l.bounds(ctx)
	if err != nil || first == nil {
		return 0, err
	}
	return max(0, last.borders[right]-first.borders[left]), nil
}

// bounds looks at the first shard, at the last, and at the first again, until that has not changed. There are none if there is no list.
func (l *List) bounds(ctx context.Context) (p *pointers, first, last *shard, err error) {
	p, first, err = l.lookAtEnd(ctx, left, 1, 0)
	for try := 0; ; try++ {
		if err != nil || p == nil {
			return nil, nil, nil, err
		}
		if first.open[right] {
			return p, first, first, nil // it is all of the list
		}
		q, end, err := l.lookAtEnd(ctx, right, 1, 0)
		if err != nil || q == nil {
			return nil, nil, nil, err
		}
		now, again, err := l.lookAtEnd(ctx, left, 1, 0)
		if err != nil || now == nil {
			return nil, nil, nil, err
		}
		same := p.generation == q.generation && p.generation == now.generation && first.id == again.id && first.borders[left] == again.borders[left]
		if same || try == maxLooks {
			return now, again, end, nil
		}
		p, first = now, again
	}
}

// maxGuesses is how often a position is looked for where it would be if all shards on the way were full, before the search halves them.
const maxGuesses = 4

// atPosition finds the shard with a position, between two that are known. It returns nil if there is none.
func (l *List) atPosition(ctx context.Context, p *pointers, first, last *shard, position, to int64) (*shard, error) {
	low, high := first, last
	id := low.id
	switch {
	case position >= last.borders[left]:
		id = last.id
	case position >= low.borders[right]:
		id = min(low.id+1+(position-low.borders[right])/p.capacity, max(low.id, last.id-1))
	}
	for guess := 0; ; guess++ {
		s, err := l.look(ctx, p, id, "", position, to)
		switch {
		case err != nil || s == nil:
			return nil, err
		case position < s.borders[left]:
			high, id = s, s.id-1-(s.borders[left]-position-1)/p.capacity
		case position >= s.borders[right]:
			low, id = s, s.id+1+(position-s.borders[right])/p.capacity
		default:
			return s, nil
		}
		if high.id-low.id < 2 {
			return nil, nil
		}
		if guess >= maxGuesses {
			id = (low.id + high.id) / 2
		}
		id = min(max(id, low.id+1), high.id-1)
	}
}

// Index reads one element.
func (l *List) Index(index any) session.Operation {
	return session.Steps(func(ctx context.Context) (any, error) {
		n, err := integer(index)
		if err != nil {
			return nil, err
		}
		side := left
		if n < 0 {
			side = right
		}
		for try := 0; ; try++ {
			p, s, err := l.lookAtEnd(ctx, side, n, n)
			switch {
			case err != nil || p == nil:
				return nil, err
			case len(s.elements) > 0:
				return s.elements[0], nil
			case s.open[left] && s.open[right]: // it is all of the list
				return nil, nil
			}
			_, other, err := l.lookAtEnd(ctx, 1-side, 1, 0)
			if err != nil || other == nil {
				return nil, err
			}
			ends := [2]*shard{s, other}
			if side == right {
				ends = [2]*shard{other, s}
			}
			position := s.borders[side] + n
			if position < ends[left].borders[left] || position >= ends[right].borders[right] {
				return nil, nil
			}
			found, err := l.atPosition(ctx, p, ends[left], ends[right], position, position)
			switch {
			case err != nil:
				return nil, err
			case found != nil && len(found.elements) > 0:
				return found.elements[0], nil
			case try == maxLooks:
				return nil, nil
			}
			if err := l.again(ctx, p); err != nil {
				return nil, err
			}
		}
	})
}

// Range reads the elements from start to stop, from one shard after another.
func (l *List) Range(start, stop any) session.Operation {
	return session.Steps(func(ctx context.Context) (any, error) {
		from, err := integer(start)
		if err != nil {
			return nil, err
		}
		to, err := integer(stop)
		if err != nil {
			return nil, err
		}
		elements := []string{}
		for s, err := range l.shards(ctx, from, to) {
			if err != nil {
				return nil, err
			}
			elements = append(elements, s.elements...)
		}
		return elements, nil
	})
}

// shards yields the shards with the elements from start to stop, and these elements. What is pushed or popped meanwhile may or may not be
// among them.
func (l *List) shards(ctx context.Context, start, stop int64) iter.Seq2[*shard, error] {
	return func(yield func(*shard, error) bool) {
		p, first, last, err := l.bounds(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		if p == nil {
			return
		}
		if first == last {
			if s, err := l.look(ctx, p, first.id, "ALL", start, stop); err != nil || s != nil && s.open[left] && s.open[right] {
				yield(s, err)
				return
			}
			if p, first, last, err = l.bounds(ctx); err != nil || p == nil { // it has got another shard
				if err != nil {
					yield(nil, err)
				}
				return
			}
		}
		next := max(position(first, last, start), first.borders[left])
		to := min(position(first, last, stop), last.borders[right]-1)
		if next > to {
			return
		}
		s, err := l.atPosition(ctx, p, first, last, next, to)
		for tries := 0; ; {
			if err != nil {
				yield(nil, err)
				return
			}
			if s != nil && s.borders[left] <= next && next < s.borders[right] {
				if !yield(s, nil) {
					return
				}
				if next = s.borders[right]; next > to {
					return
				}
				tries = 0
				s, err = l.look(ctx, p, s.id+1, "", next, to)
				continue
			}
			if tries++; tries > maxLooks {
				yield(nil, fmt.Errorf("%w: no shard has the position %d", layout.ErrBroken, next))
				return
			}
			generation := p.generation
			if err = l.again(ctx, p); err != nil {
				continue
			}
			if p, first, last, err = l.bounds(ctx); err != nil {
				continue
			}
			if p == nil || p.generation != generation {
				return // it was deleted
			}
			if first.borders[left] > next { // popped meanwhile
				next, tries = first.borders[left], 0
			}
			if to = min(to, last.borders[right]-1); next > to {
				return
			}
			s, err = l.atPosition(ctx, p, first, last, next, to)
		}
	}
}

func position(first, last *shard, index int64) int64 {
	if index < 0 {
		return last.borders[right] + max(index, math.MinInt64/2)
	}
	return first.borders[left] + min(index, math.MaxInt64/2)
}

// All yields the elements from left to right.
func (l *List) All(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for s, err := range l.shards(ctx, 0, -1) {
			if err != nil {
				yield("", err)
				return
			}
			for _, element := range s.elements {
				if !yield(element, nil) {
					return
				}
			}
		}
	}
}

// Set replaces an element.
func (l *List) Set(index, value any) session.Operation {
	return session.Steps(func(ctx context.Context) (any, error) {
		n, err := integer(index)
		if err != nil {
			return nil, err
		}
		for try := 0; ; try++ {
			p, first, last, err := l.bounds(ctx)
			switch {
			case err != nil:
				return nil, err
			case p == nil || first.borders[left] == last.borders[right]:
				return nil, rediserr.NoSuchKey
			}
			at := position(first, last, n)
			if at < first.borders[left] || at >= last.borders[right] {
				return nil, rediserr.Index
			}
			s, isIndex := first, 1
			if first != last {
				isIndex = 0
				if s, err = l.atPosition(ctx, p, first, last, at, at-1); err != nil {
					return nil, err
				}
			} else {
				at = n
			}
			if s != nil {
				op := l.sessions.Operation(setScript, []any{l.part(p, s.id).Meta}, 6)
				op.Append("L", p.word, s.id, at, value, isIndex)
				if done, err := op.Run(ctx); err != nil || done == int64(1) {
					return "OK", err
				}
			}
			if try == maxLooks {
				return nil, rediserr.Index // others pop the elements faster than they can be found
			}
			if err := l.again(ctx, p); err != nil {
				return nil, err
			}
		}
	})
}

// Positions finds elements, as LPOS with these arguments.
func (l *List) Positions(args ...any) session.Operation {
	return session.Steps(func(ctx context.Context) (any, error) {
		how, err := parsePos(args)
		if err != nil {
			return nil, err
		}
		found, err := l.positions(ctx, how)
		switch {
		case err != nil:
			return nil, err
		case how.several:
			return found, nil
		case len(found) == 0:
			return nil, nil
		}
		return found[0], nil
	})
}

type posArgs struct {
	value               any
	rank, count, maxLen int64
	several             bool
}

// Errors of LPOS, in Redis's words.
const (
	rankZero       rediserr.Error = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list"
	countNegative  rediserr.Error = "ERR COUNT can't be negative"
	maxLenNegative rediserr.Error = "ERR MAXLEN can't be negative"
)

func parsePos(args []any) (how posArgs, err error) {
	how = posArgs{value: args[0], rank: 1, count: 1}
	for args = args[1:]; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return how, rediserr.Syntax
		}
		n, err := integer(args[1])
		word, _ := args[0].(string)
		word = strings.ToLower(word)
		switch {
		case word != "rank" && word != "count" && word != "maxlen":
			return how, rediserr.Syntax
		case err != nil:
			return how, err
		case word == "rank" && (n == 0 || n == math.MinInt64):
			return how, rankZero
		case word == "rank":
			how.rank = n
		case word == "count" && n < 0:
			return how, countNegative
		case word == "count":
			how.count, how.several = n, true
		case n < 0:
			return how, maxLenNegative
		default:
			how.maxLen = n
		}
	}
	return how, nil
}

// positions compares the elements of one shard after another, from the end that the sign of the rank names.
func (l *List) positions(ctx context.Context, how posArgs) ([]any, error) {
	p, first, last, err := l.bounds(ctx)
	if err != nil || p == nil {
		return []any{}, err
	}
	from, step, skip := first.id, int64(1), how.rank-1
	if how.rank < 0 {
		from, step, skip = last.id, -1, -how.rank-1
	}
	left0, compare := first.borders[left], how.maxLen
	result := []any{}
	for id := from; id >= first.id && id <= last.id; id += step {
		reply, err := l.run(ctx, l.onShard(p, posScript, id, id, how.value, compare, step))
		if err != nil {
			return nil, err
		}
		if reply == nil {
			continue // its elements were popped meanwhile
		}
		s, found := readShard(id, reply)
		if id == first.id {
			left0 = s.borders[left] // which may have moved since
		}
		for _, at := range found {
			if skip > 0 {
				skip--
				continue
			}
			result = append(result, at.(int64)-left0)
			if how.count > 0 && int64(len(result)) == how.count {
				return result, nil
			}
		}
		if how.maxLen > 0 {
			if compare -= s.borders[right] - s.borders[left]; compare <= 0 {
				break
			}
		}
	}
	return result, nil
}

// integer reads an argument as Redis does.
func integer(arg any) (int64, error) {
	switch n := arg.(type) {
	case int64:
		return n, nil
	case int:
		return int64(n), nil
	case string:
		if value, err := strconv.ParseInt(n, 10, 64); err == nil && strconv.FormatInt(value, 10) == n {
			return value, nil
		}
	case []byte:
		return integer(string(n))
	}
	return 0, rediserr.NotInteger
}
