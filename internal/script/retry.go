package script

import (
	"context"
	"time"
)

// RetryFor is how long a call whose context has no deadline is retried while the server cannot serve it or does not answer.
const RetryFor = 10 * time.Second

// Deadline returns the deadline of ctx, or RetryFor from now if it has none.
func Deadline(ctx context.Context) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline
	}
	return time.Now().Add(RetryFor)
}

// Backoff returns the pause after a number of failed attempts: 2 ms, doubling up to 32 ms.
func Backoff(attempt int) time.Duration {
	return 2 * time.Millisecond << min(attempt, 4)
}

// Sleep pauses. It returns the error of ctx if that ends first.
func Sleep(ctx context.Context, pause time.Duration) error {
	if pause <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
