package blocking

import (
	"context"
	"sync"
	"time"
)

// Shared has the queues of callers that wait on several lists: those that wait on the same ones, in the same order, are in one queue.
type Shared struct {
	mu     sync.Mutex
	queues map[string]*sharedQueue
}

type sharedQueue struct {
	*Queue
	users int
}

// Pop pops from the queue of that name, which is made if nobody uses it.
func (s *Shared) Pop(ctx context.Context, timeout time.Duration, name string, make func() *Queue) (string, error) {
	q := s.enter(name, make)
	defer s.exit(name, q)
	return q.Pop(ctx, timeout)
}

func (s *Shared) enter(name string, newQueue func() *Queue) *sharedQueue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		if s.queues == nil {
			s.queues = map[string]*sharedQueue{}
		}
		q = &sharedQueue{Queue: newQueue()}
		s.queues[name] = q
	}
	q.users++
	return q
}

func (s *Shared) exit(name string, q *sharedQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(s.queues, name)
		q.close()
	}
}
