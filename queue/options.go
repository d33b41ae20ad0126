package queue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/shardedlist/shardedlist"
)

const (
	// DefaultLease, DefaultAttempts and DefaultGrace are what New sets without the options.
	DefaultLease    = 30 * time.Second
	DefaultAttempts = 25
	DefaultGrace    = 10 * time.Second
	// MinLease is the shortest lease: a third of it has to be enough for a heartbeat.
	MinLease = 300 * time.Millisecond
	// MaxAttempts is the largest number of attempts.
	MaxAttempts = math.MaxUint16
	// MaxPayload is the size in bytes of the largest payload that Push takes. The server copies a job several times, and does nothing
	// else meanwhile.
	MaxPayload = 16 << 20
	// MaxWorkers is the largest number of workers of one Run.
	MaxWorkers = 100_000

	longest  = 365 * 24 * time.Hour   // of a time that is an option
	lateness = 100 * time.Millisecond // of a consumer that loses no tokens, without Burst
)

// Option is an option of New.
type Option func(*settings) error

// settings is what options set.
type settings struct {
	rate, burst int64
	per         time.Duration
	concurrency int64
	lease       time.Duration
	attempts    int
	backoff     func(attempt int) time.Duration
	grace       time.Duration
	popRight    bool
	onError     func(err error)
	listOptions []shardedlist.Option
}

func defaults() settings {
	return settings{lease: DefaultLease, attempts: DefaultAttempts, backoff: exponential, grace: DefaultGrace}
}

func (s *settings) check() error {
	if s.burst > 0 && s.rate == 0 {
		return fmt.Errorf("%w: a burst without a rate", ErrOption)
	}
	if s.rate > 0 && s.burst == 0 {
		s.burst = int64(math.Ceil(float64(s.rate) * max(0.1, float64(lateness)/float64(s.per))))
	}
	return nil
}

// Rate limits how many jobs all consumers together begin: n in each period, as a token bucket admits them. Tokens arrive evenly, one
// every per/n. The bucket holds those of a tenth of the period, or of 100 ms if that is longer, and at least one, unless [Burst] says
// otherwise. So no period has more than n jobs and a burst. A retry counts like a first attempt.
func Rate(n int64, per time.Duration) Option {
	return func(s *settings) error {
		if n < 1 || per < time.Millisecond || per > longest || float64(per)/float64(n) < float64(time.Microsecond)/10 {
			return fmt.Errorf("%w: a rate of %d in %v", ErrOption, n, per)
		}
		s.rate, s.per = n, per
		return nil
	}
}

// Burst sets how many tokens the bucket of Rate holds: how many jobs may begin at once after a pause. A token that arrives at a full
// bucket is lost: with a burst of 1, the time by which each consumer comes late.
func Burst(n int64) Option {
	return func(s *settings) error {
		if n < 1 || n > 1<<31 {
			return fmt.Errorf("%w: a burst of %d", ErrOption, n)
		}
		s.burst = n
		return nil
	}
}

// Concurrency limits how many jobs all consumers together run at once: how many are leased. A job whose consumer has died counts
// until its lease ends.
func Concurrency(n int64) Option {
	return func(s *settings) error {
		if n < 1 {
			return fmt.Errorf("%w: a concurrency of %d", ErrOption, n)
		}
		s.concurrency = n
		return nil
	}
}

// Lease sets for how long a consumer that is not heard of keeps its jobs: at least MinLease. A consumer extends its leases every
// third of it.
func Lease(d time.Duration) Option {
	return func(s *settings) error {
		if d < MinLease || d > longest {
			return fmt.Errorf("%w: a lease of %v is shorter than %v, or longer than a year", ErrOption, d, MinLease)
		}
		s.lease = d
		return nil
	}
}

// Attempts sets how often a job is tried before it goes to the dead, 1 to MaxAttempts. An attempt whose lease ran out counts.
func Attempts(n int) Option {
	return func(s *settings) error {
		if n < 1 || n > MaxAttempts {
			return fmt.Errorf("%w: %d attempts", ErrOption, n)
		}
		s.attempts = n
		return nil
	}
}

// Backoff sets how long a job is delayed after an attempt has failed, the first being 1. Without it, the delay begins at a second and
// doubles up to ten minutes, and each is longer or shorter by up to a quarter, so that jobs that failed together do not come back
// together.
func Backoff(delay func(attempt int) time.Duration) Option {
	return func(s *settings) error {
		if delay == nil {
			return fmt.Errorf("%w: the backoff is nil", ErrOption)
		}
		s.backoff = delay
		return nil
	}
}

// Grace sets how long Run waits for handlers when its context has ended, before it ends theirs.
func Grace(d time.Duration) Option {
	return func(s *settings) error {
		if d < 0 {
			return fmt.Errorf("%w: a grace of %v", ErrOption, d)
		}
		s.grace = d
		return nil
	}
}

// PopRight makes the queue take jobs from the right end of the list, and push them to the left: for a list that other services LPUSH
// to and BRPOP from.
func PopRight() Option {
	return func(s *settings) error {
		s.popRight = true
		return nil
	}
}

// OnError sets a function that gets the errors of [Queue.Run] that nothing returns: of a server that does not answer, or refuses what
// Run will try again; of a job whose end could not be recorded, and which will be done again when its lease ends. It is called by
// several goroutines, and must not block. Failures of handlers are not among them.
func OnError(do func(err error)) Option {
	return func(s *settings) error {
		s.onError = do
		return nil
	}
}

// List sets options of the lists that the queue keeps its jobs in, such as [shardedlist.WithReplicas].
func List(opts ...shardedlist.Option) Option {
	return func(s *settings) error {
		s.listOptions = append(s.listOptions, opts...)
		return nil
	}
}

// exponential is the backoff without the option.
func exponential(attempt int) time.Duration {
	delay := min(time.Second<<min(attempt-1, 10), 10*time.Minute)
	return delay*3/4 + rand.N(delay/2)
}
