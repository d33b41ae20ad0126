package batch

import "time"

// latency estimates how long a round trip takes by the quickest recent one.
type latency struct {
	quickest time.Duration
}

const (
	// far is the round trip from which the network takes most of it.
	far = 200 * time.Microsecond
	// Round trips of more than that many requests or bytes take long because of their size.
	smallCount = 4
	smallBytes = 16 << 10
	// forgetting is in how many observations a quicker past is half forgotten, more or less.
	forgetting = 64
)

// observe takes a round trip into account. A quick one counts at once, and a slow one little: it may be chance.
func (l *latency) observe(took time.Duration, count, bytes int) {
	switch {
	case l.quickest == 0 || took < l.quickest:
		l.quickest = took
	case count <= smallCount && bytes <= smallBytes:
		l.quickest += (min(took, 2*l.quickest+far) - l.quickest) / forgetting
	}
}

// isFar tells whether the server is so far away that it idles for most of a round trip.
func (l *latency) isFar() bool { return l.quickest > far }
