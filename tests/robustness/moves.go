package main

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Moves are commands of the hook that may wait, on lists of which one does not match: elements go from the first list to that one, which stays
// a plain list, and on to the third. Consumers take them where they are, from the third list first, so the order is that of one queue.

// besideSuffix ends the name of the list that does not match.
const besideSuffix = ":beside"

func besideOf(name string) []string { return []string{name, name + besideSuffix, name + ":out"} }

func doesNotMatch(key string) bool { return strings.HasSuffix(key, besideSuffix) }

// moveOrPop moves an element, or takes one. It returns how sure it is that there is none.
func (h *hooked) moveOrPop(ctx context.Context, random *rand.Rand, lists []string, consumer int, _ []int) (empties int) {
	first, beside, out := lists[0], lists[1], lists[2]
	start, blocking := now(), true
	var pop redis.Cmder
	choice := random.IntN(4)
	if h.stopped() {
		choice = 3
	}
	switch choice {
	case 0:
		return h.moved(h.rdb.BLMove(ctx, first, beside, "LEFT", "RIGHT", blockFor))
	case 1:
		return h.moved(h.rdb.BLMove(ctx, beside, out, "LEFT", "RIGHT", blockFor))
	case 2:
		pop, blocking = h.rdb.LMPop(ctx, "LEFT", 1, out, beside, first), false
	default:
		pop = h.rdb.BLPop(ctx, blockFor, out, beside, first)
	}
	if lines := h.took(consumer, start, now(), blocking, pop); lines != nil {
		h.say(lines)
	}
	if blocking && pop.Err() == redis.Nil {
		return 3
	}
	return 0
}

// moved reports an error that no fault explains. Wherever the element is, it is in one of the lists.
func (h *hooked) moved(move *redis.StringCmd) (empties int) {
	if err := move.Err(); isUnexpected(err) {
		h.say([]byte("x move: " + err.Error()))
	}
	return 0
}
