package blocking

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// maxPutBackPause is the longest pause between two attempts to put elements back.
const maxPutBackPause = time.Second

// PutBack returns popped elements that no caller takes to the end they came from, the one popped last first, in atomic parts: push pushes
// the first of the values, and returns how many. If the server does not accept a part, for example because its memory is full, waiting
// callers get the elements. It repeats this, ever more seldom, until all elements have a place or the client is closed. A part whose
// outcome is unknown is not pushed again.
func (q *Queue) PutBack(popped []string, push func(ctx context.Context, values []any) (count int, err error)) {
	for attempt := 0; len(popped) > 0; attempt++ {
		back := make([]any, len(popped))
		for i, value := range popped {
			back[len(popped)-1-i] = value
		}
		ctx, cancel := context.WithTimeout(context.Background(), session.ResolveFor)
		count, err := push(ctx, back)
		cancel()
		switch {
		case script.IsDone(err) || errors.Is(err, session.ErrOutcomeUnknown):
			popped, attempt = popped[:len(popped)-count], 0
			continue
		case errors.Is(err, redis.ErrClosed):
			return
		}
		popped = q.DeliverLate(popped)
		time.Sleep(min(script.Backoff(0)<<min(attempt, 16), maxPutBackPause))
	}
}
