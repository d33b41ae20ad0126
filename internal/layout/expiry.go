package layout

import "time"

// Expiry says when a list expires.
type Expiry struct {
	How          ExpiryKind
	Milliseconds int64
	Conditions   string // those of NX, XX, GT and LT that apply
}

// ExpiryKind is how an Expiry tells the time, as the scripts spell it.
type ExpiryKind string

const (
	ExpireIn    ExpiryKind = "in" // so many milliseconds
	ExpireAt    ExpiryKind = "at" // a Unix time in milliseconds
	ExpireNever ExpiryKind = "never"
)

// Lifetime is when a list expires.
type Lifetime struct {
	Expires int64 // Unix time in milliseconds, or NeverExpires or NoList
	Now     int64 // the server's time
}

// What Redis's TTL tells besides times.
const (
	NeverExpires = -1
	NoList       = -2
)

// In returns the lifetime in units, rounded: how long it is, or the time of its end if that is absolute. It returns NeverExpires and
// NoList as they are.
func (l Lifetime) In(unit time.Duration, absolute bool) int64 {
	if l.Expires < 0 {
		return l.Expires
	}
	remaining := l.Expires
	if !absolute {
		remaining -= l.Now
	}
	per := unit.Milliseconds()
	units := remaining / per
	if remaining%per*2 >= per { // Redis rounds halves up
		units++
	}
	return units
}
