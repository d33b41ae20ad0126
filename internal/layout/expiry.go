package layout

import "time"

// Expiry says when a list expires.
type Expiry struct {
	How          ExpiryKind
	Milliseconds int64
	Conditions   string // those of NX, XX, GT and LT that apply
}

// ExpiryKind says how the time of an Expiry is given. The values are those of the scripts.
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

// Replies of TTL that are not times.
const (
	NeverExpires = -1
	NoList       = -2
)

// In returns the lifetime in units, rounded: the time that remains, or the time at which it ends if absolute is set. It returns
// NeverExpires and NoList unchanged.
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

// OfKey is the result of an operation that has found no list, and so has carried out its command on the key.
type OfKey struct{ Reply any }
