package oneslot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var repairScript = script.Load("repair")

const (
	lengthsStep = 500 // shards whose lengths one script reads
	closeStep   = 500 // shards that one script renames
)

// Repair makes shards that no meta knows the list again, or a part of it, and closes the gaps where shards are missing. It returns what it
// has found and done, in words, and then what Check finds. It may run twice, and beside any operation.
func (l *List) Repair(ctx context.Context, how layout.Repair) (report []string, err error) {
	say := func(format string, args ...any) { report = append(report, fmt.Sprintf(format, args...)) }
	if err := l.closeGaps(ctx, how, say); err != nil {
		return report, err
	}
	reunited, left, err := l.reunite(ctx, how, say)
	if err == nil && reunited { // which may have gaps, too
		err = l.closeGaps(ctx, how, say)
	}
	switch {
	case err != nil:
		return report, err
	case how.DryRun && len(report) > 0:
		return report, fmt.Errorf("%w: nothing has been changed", layout.ErrBroken)
	case left:
		return report, fmt.Errorf("%w: the shards that no meta knows have been left as they are", layout.ErrBroken)
	}
	return report, l.Check(ctx)
}

// generation are stray shards with one prefix: what was once one list.
type generation struct {
	prefix   string
	ids      []int64 // in order
	lengths  map[int64]int64
	elements int64
}

// name is what the report calls it.
func (g *generation) name(l *List) string {
	return strings.Trim(strings.TrimPrefix(g.prefix, l.keys.Prefix), "#:")
}

// reunite makes stray shards a part of the list. It reports whether it has, and whether it has left
// some, for which the caller must say more.
func (l *List) reunite(ctx context.Context, how layout.Repair, say func(string, ...any)) (reunited, left bool, err error) {
	master, err := l.home(ctx)
	if err != nil {
		return false, false, err
	}
	found, err := l.strays(ctx, "")
	if err == nil {
		err = l.isHome(ctx, master) // or shards may be elsewhere
	}
	if err != nil || len(found) == 0 {
		return false, false, err
	}
	var chosen *generation
	for _, prefix := range slices.Sorted(maps.Keys(found)) {
		g := &generation{prefix: prefix, ids: found[prefix]}
		if err := l.measure(ctx, g, false); err != nil {
			return false, false, err
		}
		say("generation %s: %d shards with %d elements, which no meta knows", g.name(l), len(g.ids), g.elements)
		if how.Generation == g.name(l) || how.Generation == "" && len(found) == 1 {
			chosen = g
		}
	}
	look, err := l.repairStep(ctx, "look")
	if err != nil {
		return false, false, err
	}
	begun := look.([]any)[0] != "" || look.([]any)[1] != int64(0)
	switch {
	case chosen == nil && how.Generation != "":
		say("there is no generation %s", how.Generation)
		return false, true, nil
	case chosen == nil:
		say("say which of the generations is the list")
		return false, true, nil
	case begun && how.Joins == "":
		say("the list has been begun anew: say whether generation %s comes before its elements or after them", chosen.name(l))
		return false, true, nil
	case !begun && how.DryRun:
		say("generation %s would be the list again", chosen.name(l))
		return false, false, nil
	case how.DryRun:
		say("generation %s would join the list", chosen.name(l))
		return false, false, nil
	}
	if err := l.measure(ctx, chosen, true); err != nil { // its shards must not expire
		return false, false, err
	}
	if look.([]any)[0] == "" {
		reply, err := l.attach(ctx, chosen, how.Joins)
		if err != nil {
			return false, false, err
		}
		if reply == int64(1) {
			say("generation %s is the list again", chosen.name(l))
			return true, false, nil
		}
		if how.Joins == "" {
			say("the list has just been begun anew: say whether generation %s comes before its elements or after them", chosen.name(l))
			return false, true, nil
		} // else somebody has pushed many elements meanwhile
	}
	if err := l.join(ctx, chosen, how.Joins); err != nil {
		return false, false, err
	}
	say("generation %s has joined the list", chosen.name(l))
	return true, false, nil
}

// measure reads the lengths of the shards, and may take their TTLs away.
func (l *List) measure(ctx context.Context, g *generation, persist bool) error {
	g.lengths, g.elements = map[int64]int64{}, 0
	for ids := range slices.Chunk(g.ids, lengthsStep) {
		args := []any{"lengths", g.prefix, ""}
		if persist {
			args[2] = "persist"
		}
		for _, id := range ids {
			args = append(args, id)
		}
		reply, err := l.repairStep(ctx, args...)
		if err != nil {
			return err
		}
		for i, length := range reply.([]any) {
			g.lengths[ids[i]] = length.(int64)
			g.elements += length.(int64)
		}
	}
	return nil
}

// attach makes a generation the list, if there is none but what the plain key holds.
func (l *List) attach(ctx context.Context, g *generation, joins layout.Joining) (any, error) {
	first, last := g.ids[0], g.ids[len(g.ids)-1]
	var changes strings.Builder
	capacity := int64(0)
	for _, id := range g.ids[1:max(1, len(g.ids)-1)] {
		switch own := g.lengths[id]; {
		case capacity == 0:
			capacity = own
			changes.WriteString(" ") // of the shards from the left end on
		case own != g.capacityAt(id-1):
			fmt.Fprintf(&changes, "%d:%d ", id, own)
		}
	}
	if capacity == 0 {
		capacity = cmp.Or(max(l.capacity.word().(int64), 0), max(fewestBySize, g.lengths[first], g.lengths[last]))
	}
	join := layout.PushedRight // newcomers
	if joins == layout.After {
		join = layout.PushedLeft
	}
	return l.repairStep(ctx, "attach", g.prefix, first, last, capacity, changes.String(), string(join))
}

// capacityAt is the length of the shard, or of the one before those that are missing up to it.
func (g *generation) capacityAt(id int64) int64 {
	for ; id > g.ids[0]; id-- {
		if length, found := g.lengths[id]; found {
			return length
		}
	}
	return g.lengths[g.ids[1]]
}

// join adds the elements of a generation to an end of the list, shard by shard from its inner end outward.
func (l *List) join(ctx context.Context, g *generation, joins layout.Joining) error {
	ids, end := slices.Clone(g.ids), layout.Right
	if joins == layout.Before {
		slices.Reverse(ids)
		end = layout.Left
	}
	for len(ids) > 0 {
		reply, err := l.repairStep(ctx, "join", g.prefix, ids[0], string(end))
		switch {
		case err != nil:
			return err
		case reply == int64(0):
			ids = ids[1:]
		case reply == int64(-1): // others have emptied the list
			rest := &generation{prefix: g.prefix, ids: slices.Sorted(slices.Values(ids))}
			if err := l.measure(ctx, rest, true); err != nil {
				return err
			}
			if reply, err := l.attach(ctx, rest, joins); err != nil || reply == int64(1) {
				return err
			}
		}
	}
	return nil
}

// closeGaps mends the shards between the ends that are missing, or do not have as many elements as they should.
func (l *List) closeGaps(ctx context.Context, how layout.Repair, say func(string, ...any)) error {
	found := false
	for next, before := "", int64(0); ; {
		part, err := l.misfits(ctx, next)
		if err != nil {
			return err
		}
		for _, m := range part.shards {
			found = true
			l.tell(say, m, before)
		}
		if next, before = part.next, before+part.elements; next == "" {
			break
		}
	}
	for next := ""; found && !how.DryRun; {
		part, err := l.misfits(ctx, next)
		switch {
		case err != nil:
			return err
		case len(part.shards) == 0 && part.next == "":
			return nil
		case len(part.shards) == 0:
			next = part.next
			continue
		}
		if m := part.shards[0]; m.size > 0 {
			_, err = l.repairStep(ctx, "fit", m.id)
		} else {
			last := m.id
			for _, m := range part.shards {
				if m.size == 0 && m.id == last+1 {
					last = m.id
				}
			}
			err = l.closeGap(ctx, []int64{m.id, last})
			next = "" // shards have other ids now
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// closeGap moves shards to where others are missing, until the gap is at an end, or beside another one.
func (l *List) closeGap(ctx context.Context, gap []int64) error {
	for former := []int64(nil); len(gap) > 0 && !slices.Equal(gap, former); {
		reply, err := l.repairStep(ctx, "close", gap[0], gap[1], closeStep)
		if err != nil {
			return err
		}
		former = gap
		if gap, err = numbers(reply.([]any)); err != nil {
			return err
		}
	}
	return nil
}

// misfits are the shards of a part of the list that are missing, or do not have as many elements as their capacity.
type misfits struct {
	shards   []misfit
	next     string // the shard at which to continue; empty at the end
	elements int64
}

type misfit struct{ id, size, capacity, before int64 }

func (l *List) misfits(ctx context.Context, from string) (part misfits, err error) {
	reply, err := l.repairStep(ctx, "misfits", from)
	if err != nil {
		return part, err
	}
	words := reply.([]any)
	read, err := numbers(words[2:])
	for m := range slices.Chunk(read, 4) {
		part.shards = append(part.shards, misfit{m[0], m[1], m[2], m[3]})
	}
	part.next, part.elements = words[0].(string), words[1].(int64)
	return part, err
}

// tell says what is wrong with a shard. So many elements are before that part of the list.
func (l *List) tell(say func(string, ...any), m misfit, before int64) {
	id, size, capacity, at := m.id, m.size, m.capacity, before+m.before
	switch {
	case size == 0:
		say("shard %d is missing: at most %d elements are gone between the indices %d and %d", id, capacity, at-1, at)
	case size < capacity:
		say("shard %d has %d elements in place of %d: %d may be gone between the indices %d and %d", id, size, capacity, capacity-size, at, at+size-1)
	default:
		say("shard %d has %d elements in place of %d, between the indices %d and %d", id, size, capacity, at, at+size-1)
	}
}

func (l *List) repairStep(ctx context.Context, args ...any) (any, error) {
	reply, err := l.read(repairScript, args...).Run(ctx)
	if err == nil && reply == nil {
		err = errors.New("the server has no reply to a repair")
	}
	return reply, err
}

// numbers reads a reply of words.
func numbers(words []any) ([]int64, error) {
	read := make([]int64, len(words))
	for i, word := range words {
		n, err := strconv.ParseInt(fmt.Sprint(word), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", session.ErrReplyLost, err)
		}
		read[i] = n
	}
	return read, nil
}
