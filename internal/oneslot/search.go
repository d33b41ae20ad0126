package oneslot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var searchScript = script.Load("search")

// How the scripts that search are told what is known, see lua/shared/searched.lua.
const (
	allAtOnce = ""     // nothing: search all
	needsMore = "MORE" // what they reply if steps must come before
)

const (
	// searchRounds is how often a search begins again because others change the list too fast. Then it is done at once.
	searchRounds = 4
	noteLife     = time.Minute
	noteRenewed  = noteLife / 3

	// What a step searches at least and at most, in elements, and how much longer it may take than a quick one.
	minSearch  = 8_000
	searchStep = 50_000
	searchTime = 2 * time.Millisecond
)

// errNoNote says that the note of a search is not there any more.
var errNoNote = errors.New("the note is not there")

// search is what an operation looks for.
type search struct {
	value     any
	direction int
	enough    int64 // matches; 0 if all are wanted
	compare   int64 // how many elements to compare; 0 for all
}

// inSteps returns the operation that build makes. Where it stands alone, it searches a long list in steps. build is told what is known.
func (l *List) inSteps(what search, build func(known string) session.Operation) session.Operation {
	op := build(allAtOnce)
	op.Alone = func(ctx context.Context) (any, error) {
		reply, err := build(strconv.Itoa(l.SearchStep)).Run(ctx)
		if reply != needsMore || !script.IsDone(err) {
			return reply, err
		}
		least := min(minSearch, l.SearchStep)
		s := searcher{list: l, search: what, matches: map[int64]string{}, pace: pace{size: least, least: least, most: l.SearchStep, time: searchTime, tries: 3}}
		s.look = s.read
		defer s.end(ctx)
		for range searchRounds {
			if possible, err := s.run(ctx); err != nil {
				return nil, err
			} else if !possible {
				break
			}
			if reply, err = build(s.known()).Run(ctx); reply != needsMore || !script.IsDone(err) {
				return reply, err
			}
		}
		l.stats.SearchedAtOnce()
		return build(allAtOnce).Run(ctx)
	}
	return op
}

// searcher searches the shards of a list while others change it. docs/models/search.py is the protocol.
type searcher struct {
	search
	list    *List
	note    string
	noted   time.Time
	ranges  []shards         // that are known, from left to right
	matches map[int64]string // the offsets of matches in them, as the script writes them, by shard
	pace    pace
	look    func(ctx context.Context, todo shards) (read shards, elements, matches int64, err error)
}

// shards are those from one id to another, both included.
type shards struct{ from, to int64 }

// run searches what is not known yet, as far as it is needed. It is not possible where the list is not one of shards, or must not be
// written to.
func (s *searcher) run(ctx context.Context) (possible bool, err error) {
	all, err := s.begin(ctx)
	if err != nil || all == nil {
		return false, unlessRefused(err)
	}
	found, compared := s.count(), int64(0)
	unknown := s.unknown(*all)
	if s.direction < 0 {
		slices.Reverse(unknown)
	}
	for _, todo := range unknown {
		for todo.from <= todo.to {
			if s.enough > 0 && found >= s.enough || s.compare > 0 && compared >= s.compare {
				return true, nil
			}
			if time.Since(s.noted) > noteRenewed {
				if now, err := s.begin(ctx); err != nil || now == nil {
					return false, unlessRefused(err)
				}
			}
			read, elements, matches, err := s.look(ctx, todo)
			if err == errNoNote {
				return true, nil // the last script finds that, too
			} else if err != nil {
				return false, err
			}
			found += matches
			compared += elements
			if s.direction < 0 {
				todo.to = read.from - 1
			} else {
				todo.from = read.to + 1
			}
		}
	}
	return true, nil
}

// begin notes the search in place of the last note, and forgets what may have changed since that. It returns the shards of the list, or
// nil if it cannot be searched in steps.
func (s *searcher) begin(ctx context.Context) (*shards, error) {
	for {
		reply, err := s.send(ctx, searchScript, "begin", uuid.NewString(), s.note, noteLife.Milliseconds())
		words, ok := reply.([]any)
		switch {
		case err != nil:
			return nil, err
		case reply == "LONG":
			if err := s.list.split(ctx); err != nil {
				return nil, err
			}
			continue
		case !ok:
			return nil, nil
		}
		numbers := make([]int64, 0, 4) // first, last, and low and high of the former note
		for _, word := range words[1:min(5, len(words))] {
			n, err := strconv.ParseInt(word.(string), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", session.ErrReplyLost, err)
			}
			numbers = append(numbers, n)
		}
		s.note, s.noted = words[0].(string), time.Now()
		if len(words) < 6 {
			s.ranges, s.matches = nil, map[int64]string{}
			return &shards{numbers[0], numbers[1]}, nil
		}
		s.keep(shards{numbers[2] + 1, numbers[3] - 1})
		for mark := range strings.SplitSeq(strings.TrimSuffix(words[5].(string), ","), ",") {
			if id, err := strconv.ParseInt(mark, 10, 64); err == nil {
				s.forget(id)
			}
		}
		return &shards{numbers[0], numbers[1]}, nil
	}
}

// keep forgets all shards but these.
func (s *searcher) keep(these shards) {
	kept := s.ranges[:0]
	for _, r := range s.ranges {
		if r = (shards{max(r.from, these.from), min(r.to, these.to)}); r.from <= r.to {
			kept = append(kept, r)
		}
	}
	s.ranges = kept
	for id := range s.matches {
		if id < these.from || id > these.to {
			delete(s.matches, id)
		}
	}
}

// forget forgets a shard.
func (s *searcher) forget(id int64) {
	delete(s.matches, id)
	for i, r := range s.ranges {
		if id >= r.from && id <= r.to {
			s.ranges = slices.Replace(s.ranges, i, i+1, shards{r.from, id - 1}, shards{id + 1, r.to})
			break
		}
	}
	s.ranges = slices.DeleteFunc(s.ranges, func(r shards) bool { return r.from > r.to })
}

// learn adds shards to those that are known.
func (s *searcher) learn(read shards) {
	s.ranges = append(s.ranges, read)
	slices.SortFunc(s.ranges, func(a, b shards) int { return cmp.Compare(a.from, b.from) })
	joined := s.ranges[:1]
	for _, r := range s.ranges[1:] {
		if last := &joined[len(joined)-1]; r.from <= last.to+1 {
			last.to = max(last.to, r.to)
		} else {
			joined = append(joined, r)
		}
	}
	s.ranges = joined
}

// unknown returns those of the shards that are not known, from left to right.
func (s *searcher) unknown(all shards) []shards {
	var unknown []shards
	for _, r := range s.ranges {
		if all.from < r.from {
			unknown = append(unknown, shards{all.from, min(all.to, r.from-1)})
		}
		all.from = max(all.from, r.to+1)
	}
	return append(unknown, all)
}

// count returns how many matches are known.
func (s *searcher) count() (n int64) {
	for _, offsets := range s.matches {
		n += int64(strings.Count(offsets, ","))
	}
	return n
}

// read searches some of the shards, from the side where the search begins.
func (s *searcher) read(ctx context.Context, todo shards) (read shards, elements, matches int64, err error) {
	from, to := todo.from, todo.to
	if s.direction < 0 {
		from, to = to, from
	}
	start := time.Now()
	reply, err := s.send(ctx, searchScript, "read", s.value, s.direction, from, to, s.pace.size, s.enough, s.note)
	if err != nil {
		return read, 0, 0, err
	} else if reply == needsMore {
		return read, 0, 0, errNoNote
	}
	s.pace.adapt(time.Since(start))
	words := reply.([]any)
	last, err := strconv.ParseInt(words[0].(string), 10, 64)
	if err != nil {
		return read, 0, 0, fmt.Errorf("%w: %w", session.ErrReplyLost, err)
	}
	read = shards{min(from, last), max(from, last)}
	for i := 2; i < len(words); i += 2 {
		id, err := strconv.ParseInt(words[i].(string), 10, 64)
		if err != nil {
			return read, 0, 0, fmt.Errorf("%w: %w", session.ErrReplyLost, err)
		}
		s.matches[id] = words[i+1].(string)
		matches += int64(strings.Count(s.matches[id], ","))
	}
	s.learn(read)
	return read, words[1].(int64), matches, nil
}

// send sends a step until there is a reply: each may be done twice.
func (s *searcher) send(ctx context.Context, step *script.Script, args ...any) (any, error) {
	until := script.Deadline(ctx)
	for attempt := 0; ; attempt++ {
		reply, err := s.list.read(step, args...).Run(ctx)
		if err == nil || script.IsReply(err) || time.Until(until) < script.Backoff(attempt) || script.Sleep(ctx, script.Backoff(attempt)) != nil {
			return reply, err
		}
	}
}

// known is what the scripts are told.
func (s *searcher) known() string {
	var matches strings.Builder
	for id, offsets := range s.matches {
		fmt.Fprintf(&matches, "%d:%s;", id, offsets)
	}
	return s.words(s.list.SearchStep, matches.String())
}

// words returns how much the script may do, what the steps have read, and more about that.
func (s *searcher) words(most int, more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s ", most, s.note)
	for _, r := range s.ranges {
		fmt.Fprintf(&b, "%d:%d,", r.from, r.to)
	}
	return b.String() + " " + more
}

// end removes the note. That of a caller that has gone is void after its life.
func (s *searcher) end(ctx context.Context) {
	if s.note != "" && ctx.Err() == nil {
		_, _ = s.list.read(searchScript, "end", s.note).Run(ctx)
	}
}

// unlessRefused returns the error, unless a search must be done without steps because of it: no note may be written, or the list is being
// restored, which splits none.
func unlessRefused(err error) error {
	if err != nil && script.IsReply(err) && (strings.Contains(err.Error(), "NOPERM") || redis.HasErrorPrefix(err, "READONLY") ||
		errors.Is(layout.ErrorOf(err), layout.ErrReversed) || strings.Contains(err.Error(), "No permissions") || strings.Contains(err.Error(), "The user executing the script can't")) {
		return nil
	}
	return err
}
