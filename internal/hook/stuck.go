package hook

import (
	"sync"
	"time"
)

const (
	// guardFor is how long a transaction waits for its slot to have moved. Most moves take less; and if a slot moves again and again,
	// a transaction meets a moment between two moves.
	guardFor = 5 * time.Second
	// stuckFor is how long a slot whose move has lasted as long counts as stuck.
	stuckFor = 10 * time.Second
)

// stuckSlots are slots whose moves do not end.
type stuckSlots struct {
	mu    sync.Mutex
	until map[int]time.Time // by slot
}

// guards tells whether a transaction that began at start is to be guarded, see slotGuard.
func (s *stuckSlots) guards(slot int, start time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if until, stuck := s.until[slot]; stuck {
		if now.Before(until) {
			return false
		}
		delete(s.until, slot)
	}
	if now.Sub(start) < guardFor {
		return true
	}
	if s.until == nil {
		s.until = make(map[int]time.Time)
	}
	s.until[slot] = now.Add(stuckFor)
	return false
}
