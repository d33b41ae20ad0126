package survey

import "time"

// Form is how a list is stored.
type Form string

const (
	Sharded   Form = "sharded"   // in one slot
	Spread    Form = "spread"    // over many slots
	Plain     Form = "plain"     // a list of Redis, which nobody has taken over
	Adopted   Form = "adopted"   // sharded, with a backlog: a plain list that was taken over, which Adopt has yet to split
	Restoring Form = "restoring" // Restore is turning it into a plain list
	Restored  Form = "restored"  // the library keeps it as a plain list, after Restore
	Unknown   Form = "unknown"   // it cannot be read, see Err
)

// Row is what a survey has found of a list.
type Row struct {
	Name string
	Form Form
	Err  error // why nothing more is known: the list is broken, or of an unknown layout, or its slot moves

	Length   int64
	Shards   int64         // Redis lists that hold the elements
	Capacity int64         // of a full shard; 0 if the list is empty or plain
	Bytes    int64         // of the shards, estimated from a few; 0 if they were not measured, or the server cannot
	TTL      time.Duration // 0 if the list does not expire

	First, Last int64 // ids of the shards at the ends
	Head, Tail  int64 // and their lengths; -1 if they are not known, because an end of a list that is spread is about to move

	Slot  int    // of all keys, or of the pointers of a list that is spread; computed even if the server is not a cluster
	Parts int64  // over which it is spread; 0 if it is in one slot
	Node  string // the address of the master that has the slot; empty if there is but one

	Backlog   int64 // elements of a plain list that are not in shards yet
	Newcomers int64 // elements at the plain key beside the list
	Unswept   int64 // shards that were deleted and are not unlinked, at the most
	Strays    int64 // shards that no meta knows, which only a survey of all lists finds

	// Armed tells that the list is empty and a consumer has begun to wait. Redis does not tell on which keys a connection waits, so nobody
	// knows how many there are, nor whether they still do: but each looks again every two seconds, and LookedAgo is how long ago the last
	// one did, or -1 if that is not known.
	Armed     bool
	LookedAgo time.Duration

	Queue *Queue // of package queue; nil if it is none

	At    time.Time // when it was looked at, by the clock of this process
	Again bool      // the list had a row before this one, which has Strays
	ends  ends
	life  string // the prefix of the shards' keys
}

// Queue is the numbers of a queue, beside the jobs that wait in the list.
type Queue struct {
	Delayed, Leased, Dead int64
	Done, Failed, Buried  int64 // how often, since the queue was created
	Paused                bool
	Waits                 bool      // a process waits for jobs
	Oldest                time.Time // when the next job of the list was pushed; zero if there is none, or it is not known
}

// ends are the positions of the ends of a list: what is pushed at an end moves it outward, and what is popped inward.
type ends struct {
	life        string // tells positions of this list from those of another one of its name; empty if they are not known
	left, right int64
}

// Flow returns how many elements came in and went out between two looks at a list.
//
// Of a queue, they are the jobs that came and that ended. Of a list that is spread, or has several shards of one capacity, they are what the ends moved:
// exactly what was pushed and popped if each end was used for one of the two only. Of any other list, only its length is known, so they
// are the least that explains it, and exact is false.
func Flow(before, after Row) (in, out int64, exact bool) {
	switch {
	case before.Queue != nil && after.Queue != nil && after.Queue.ended() >= before.Queue.ended():
		out = after.Queue.ended() - before.Queue.ended()
		in = max(0, after.jobs()-before.jobs()+out)
		return in, out, true
	case before.ends.life != "" && before.ends.life == after.ends.life:
		left, right := before.ends.left-after.ends.left, after.ends.right-before.ends.right
		return max(0, left) + max(0, right), max(0, -left) + max(0, -right), true
	}
	grown := after.Length - before.Length
	return max(0, grown), max(0, -grown), false
}

func (q *Queue) ended() int64 { return q.Done + q.Buried }

// jobs returns how many jobs of a queue have not ended.
func (r Row) jobs() int64 { return r.Length + r.Queue.Delayed + r.Queue.Leased }
