package batch

import (
	"sync"
	"time"
)

// Request is what one caller wants of an operation, and what it gets.
type Request struct {
	Values []any // to push
	Count  int   // of values to push, or of elements to pop
	Bytes  int   // of the values

	Length   int64    // the result of a push
	Elements []string // the result of a pop

	err    error
	giveUp time.Time   // when the caller has waited long enough for a server that does not answer
	batch  *batch      // that carries it, nil once it is done; guarded by Batcher.mu, as is gone
	gone   bool        // the caller has given up
	ready  chan *batch // brings the batch that the caller is to lead, or nil when its request is done
}

var requests = sync.Pool{New: func() any { return &Request{ready: make(chan *batch, 1)} }}

// NewRequest returns an empty request.
func NewRequest() *Request {
	r := requests.Get().(*Request)
	*r = Request{ready: r.ready}
	return r
}

// Recycle lets others use a request that is done, and whose result has been read. One that failed may still be in use.
func (r *Request) Recycle() { requests.Put(r) }

// Gone reports whether the caller has given up. Share asks.
func (r *Request) Gone() bool { return r.gone }
