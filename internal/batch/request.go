package batch

import (
	"sync"
	"time"
)

// Request is one caller's part of an operation, and its result.
type Request struct {
	Values []any // to push, or the words of commands
	Count  int   // of these, or of elements to pop
	Bytes  int   // of the values

	PutsBack bool // the values were popped there, and no caller has taken them
	Retries  bool // the caller asks again if it gets nothing although there is more, see Told
	Retried  bool // it does so now, and goes before those that have come later
	Hurries  bool // the caller returns soon after its ctx ends, also if the server has just stopped answering

	Length   int64    // the result of a push
	Elements []string // the result of a pop, or the replies to commands
	Told     string   // what else the reply has told, see Kind.Share

	err     error
	watched bool        // nothing but the Batcher ends its wait
	giveUp  time.Time   // when the caller has waited long enough for a server that does not answer
	batch   *batch      // that carries it, nil once it is done; guarded by Batcher.mu, as is gone
	gone    bool        // the caller has given up
	ready   chan *batch // brings the batch that the caller is to lead, or nil when its request is done
}

var requests = sync.Pool{New: func() any { return &Request{ready: make(chan *batch, 1)} }}

// NewRequest returns an empty request.
func NewRequest() *Request {
	r := requests.Get().(*Request)
	*r = Request{ready: r.ready}
	return r
}

// Recycle makes a request available for reuse, once it is done and its result has been read. A failed request may still be in
// use.
func (r *Request) Recycle() { requests.Put(r) }

// PutsBack returns how many values of the requests were popped before.
func PutsBack(requests []*Request) (values int) {
	for _, r := range requests {
		if r.PutsBack {
			values += r.Count
		}
	}
	return values
}

// Gone reports whether the caller has given up. Share calls it.
func (r *Request) Gone() bool { return r.gone }
