package script

import (
	"context"
	"fmt"
	"strings"
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

// Retry calls do while the server cannot serve it for now (see IsTransient), until the deadline of ctx.
func Retry(ctx context.Context, do func() error) error {
	until := Deadline(ctx)
	for attempt := 0; ; attempt++ {
		err := do()
		pause := PauseAfter(err, attempt)
		if err == nil || !IsTransient(err) || time.Until(until) < pause {
			return err
		}
		if sleepErr := Sleep(ctx, pause); sleepErr != nil {
			return fmt.Errorf("%w, last reply: %w", sleepErr, err)
		}
	}
}

// PauseAfter returns the pause after an attempt: none if the script has done a part of the work, and asks for the next.
func PauseAfter(err error, attempt int) time.Duration {
	if IsReply(err) && (strings.HasSuffix(err.Error(), newcomersWait) || strings.HasSuffix(err.Error(), gathers)) {
		return 0
	}
	return Backoff(attempt)
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
