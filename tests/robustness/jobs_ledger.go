package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shardedlist/shardedlist/internal/ledger"
)

// jobLedger is what workers have reported of their jobs; see jobsSpec. It tells which promises were broken.
type jobLedger struct {
	lease      time.Duration
	attempts   []int // of the jobs of each queue
	waits      bool  // pushes wait for replicas: those that are told of them are never undone
	replicated int64 // what was told before that is on the replica of a master that crashed; 0: no crash

	mu         sync.Mutex
	jobs       map[string]*jobRecord // by payload
	calls      map[callID]*handlerCall
	stalls     map[*process][]interval // by the machine, or by a strike
	runEnds    map[callID]int64        // when each Run returned
	unexpected string

	pushes, answered, refused int64 // calls; answered were told that the job was pushed, or that another has its key
	runsEnded                 int64
	acknowledged, done        int // jobs
}

// callID is a call of a handler, or a Run: each process numbers its own.
type callID struct {
	process *process
	number  int64
}

// jobRecord is a job that was pushed, or may have been.
type jobRecord struct {
	Payload    string
	Queue      int
	Delay      int64
	Key        string      // unique, or -
	Start, End int64       // of the push; End is 0 if it was not reported
	Fate       ledger.Fate // empty if no producer has told of it
	Replicated bool
	ID         string
	Calls      []*handlerCall
	There      bool // the keys had it when the workers had stopped
}

// handlerCall is a call of a handler.
type handlerCall struct {
	ID          string // of the job
	Worker      int    // the process, of the operating system
	Number, Run int64
	Attempt     int
	Begin, End  int64
	Result      jobResult // empty while it runs, or if it was killed
	ContextEnd  int64
	Cause       string // of the end of its context; empty if that has not ended
	Killed      int64  // when its process was; 0 if it was not
	process     *process
	job         *jobRecord
}

func newJobLedger(spec jobsSpec, waits bool) *jobLedger {
	l := &jobLedger{
		lease: spec.Lease, waits: waits, jobs: map[string]*jobRecord{}, calls: map[callID]*handlerCall{},
		stalls: map[*process][]interval{}, runEnds: map[callID]int64{},
	}
	for _, q := range spec.Queues {
		l.attempts = append(l.attempts, q.Attempts)
	}
	return l
}

// hear takes a line of a worker.
func (l *jobLedger) hear(p *process, line []byte) (ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	words := bytes.Fields(line)
	switch what := words[0][0]; what {
	case '>':
		l.pushing(words[1:])
	case '+', '~', '?', '!', 'd':
		l.pushed(what, words[1:])
	case 'b':
		l.began(p, words[1:])
	case 'e':
		l.returned(l.calls[callID{p, number(words[1])}], jobResult(words[2]), number(words[3]))
	case 'c':
		c := l.calls[callID{p, number(words[1])}]
		c.Cause, c.ContextEnd = string(words[2]), number(words[3])
	case 'r':
		l.runEnds[callID{p, number(words[1])}] = number(words[2])
		l.runsEnded++
	case 'h':
		l.stalls[p] = append(l.stalls[p], interval{number(words[1]), number(words[2])})
	case 'x':
		l.unexpected = string(line)
	case '.':
		return true
	}
	return false
}

func number(word []byte) int64 {
	n, _ := strconv.ParseInt(string(word), 10, 64)
	return n
}

func (l *jobLedger) pushing(words [][]byte) {
	n := numbers(words)
	l.pushes++
	for i := range int(n[2]) {
		job := l.job(ledger.Name(int(n[0]), int(n[1])+i))
		job.Queue, job.Delay, job.Key, job.Start, job.Fate = int(n[3]), n[4], string(words[5]), n[6], ledger.Unknown
	}
}

// job returns the record of a job. One that has been begun may not have been heard of: its producer's line comes another way.
func (l *jobLedger) job(payload string) *jobRecord {
	if l.jobs[payload] == nil {
		l.jobs[payload] = &jobRecord{Payload: payload}
	}
	return l.jobs[payload]
}

func (l *jobLedger) pushed(what byte, words [][]byte) {
	n := numbers(words)
	if what == 'd' || fates[what] == ledger.Done {
		l.answered++
	} else {
		l.refused++
	}
	for i := range int(n[2]) {
		job := l.job(ledger.Name(int(n[0]), int(n[1])+i))
		job.End, job.ID, job.Replicated, job.Fate = n[3], string(words[4]), what == '+', fates[what]
		switch {
		case what == 'd':
			job.Fate, job.ID = ledger.Refused, "-"
		case job.Fate == ledger.Done:
			l.acknowledged++
		}
	}
}

func (l *jobLedger) began(p *process, words [][]byte) {
	c := &handlerCall{
		ID: string(words[4]), Number: number(words[0]), Run: number(words[3]), Attempt: int(number(words[2])), Begin: number(words[5]), process: p,
	}
	if p != nil && p.cmd != nil {
		c.Worker = p.cmd.Process.Pid
	}
	l.calls[callID{p, c.Number}] = c
	c.job = l.job(string(words[1]))
	c.job.Calls = append(c.job.Calls, c)
}

func (l *jobLedger) returned(c *handlerCall, result jobResult, at int64) {
	if result == jobDone && !c.job.isDone() {
		l.done++
	}
	c.Result, c.End = result, at
}

// died notes that a process was killed: what its handlers were doing ended then.
func (l *jobLedger) died(p *process, at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.process == p {
			c.Killed = at
		}
	}
}

// crashed notes that a master crashes whose replica has what clients were told before.
func (l *jobLedger) crashed(replicated int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replicated = replicated
}

func (l *jobLedger) noFaultExplains() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unexpected
}

// Counts returns how many jobs were acknowledged, and how many done.
func (l *jobLedger) Counts() (pushed, done int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acknowledged, l.done
}

// Evidence returns an error unless most pushes were acknowledged, and most jobs done.
func (l *jobLedger) Evidence() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case 2*l.answered < l.pushes || l.answered == 0:
		return fmt.Errorf("of %d pushes, %d were acknowledged", l.pushes, l.answered)
	case 2*l.done < l.acknowledged || l.done == 0:
		return fmt.Errorf("of %d jobs, %d were done while the faults lasted", l.acknowledged, l.done)
	}
	return nil
}

// history returns what is known of all jobs, for those who look into what went wrong.
func (l *jobLedger) history() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return pretty(l.jobs)
}

// jobTally is what a ledger comes to.
type jobTally struct {
	Done     int64 // jobs
	Again    int64 // times that a job was done again, after its lease had run out
	Undone   int64 // times that a crash has undone that a job was pushed, or done
	Problems []jobProblem
}

// jobProblem is a broken promise.
type jobProblem struct {
	Kind string
	Text string
	Job  *jobRecord
}

// Kinds of problems.
const (
	jobLost     = "lost"
	jobInvented = "never pushed"
	jobTwice    = "done again, and nothing tells that a lease had run out"
	jobAtOnce   = "done twice at a time, under two leases"
	jobEarly    = "begun before they were due"
	jobRenamed  = "under another id"
	jobUnique   = "pushed though another had the unique key"
)

// tally judges all jobs. There are payloads where the keys have them now.
func (l *jobLedger) tally(there places) (t jobTally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for payload := range there {
		l.job(payload).There = true
	}
	for _, payload := range slices.Sorted(maps.Keys(l.jobs)) {
		job := l.jobs[payload]
		l.judge(job, there[payload] != "", &t, func(kind, format string, args ...any) {
			t.Problems = append(t.Problems, jobProblem{kind, payload + ": " + fmt.Sprintf(format, args...), job})
		})
	}
	l.judgeKeys(&t)
	return t
}

// judge judges one job. It counts what is to be expected, and reports the rest.
func (l *jobLedger) judge(job *jobRecord, there bool, t *jobTally, report func(kind, format string, args ...any)) {
	if job.isDone() {
		t.Done++
	}
	switch exists := job.Fate == ledger.Done || job.There; {
	case job.Fate == "":
		report(jobInvented, "begun %d times", len(job.Calls))
	case job.Fate == ledger.Refused && len(job.Calls) > 0 && !job.There && l.undone(job.Calls[0].Begin):
		t.Undone++ // the old master had it, and its replica was asked again
	case job.Fate == ledger.Refused && (len(job.Calls) > 0 || job.There):
		report(jobInvented, "its push was refused, and it was begun %d times", len(job.Calls))
	case exists && !job.isDone() && !there && !job.There && l.undone(job.End) && !(l.waits && job.Replicated):
		t.Undone++
	case exists && !job.isDone() && !there:
		report(jobLost, "acknowledged, begun %d times, and never done", len(job.Calls))
	}
	for _, c := range job.Calls {
		if job.ID != "-" && job.ID != "" && c.ID != job.ID || c.ID != job.Calls[0].ID {
			report(jobRenamed, "pushed as %s, begun as %s", job.ID, c.ID)
		}
		if early := time.Duration(job.Start + job.Delay - c.Begin); early > time.Millisecond { // which the server counts in
			report(jobEarly, "%v too early", early)
		}
	}
	l.judgeTwice(job, t, report)
	l.judgeAtOnce(job, report)
}

func (j *jobRecord) isDone() bool {
	return slices.ContainsFunc(j.Calls, func(c *handlerCall) bool { return c.Result == jobDone })
}

// undone reports whether a crash may have undone what was told to a client at that time.
func (l *jobLedger) undone(at int64) bool {
	return l.replicated > 0 && at >= l.replicated
}

// judgeTwice judges a job that was done more than once.
func (l *jobLedger) judgeTwice(job *jobRecord, t *jobTally, report func(kind, format string, args ...any)) {
	var done []*handlerCall
	for _, c := range job.Calls {
		if c.Result == jobDone {
			done = append(done, c)
		}
	}
	buried := l.mayHaveBeenBuried(job)
	slices.SortFunc(done, func(a, b *handlerCall) int {
		if buried { // then the attempts begin anew
			return cmp.Compare(a.Begin, b.Begin)
		}
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Begin, b.Begin))
	})
	for i := 1; i < len(done); i++ {
		first, second := done[i-1], done[i]
		switch {
		case l.undone(cmp.Or(first.ContextEnd, never)):
			t.Undone++
		case second.Attempt <= first.Attempt && first.Cause != shutDown && !buried:
			report(jobTwice, "both in attempt %d", first.Attempt)
		case !l.leaseRanOut(first, second):
			report(jobTwice, "in attempts %d and %d, and when the second began nothing had told that the lease of the first had run out", first.Attempt, second.Attempt)
		default:
			t.Again++
		}
	}
}

// mayHaveBeenBuried reports whether the job may have gone to the dead, and come back with its attempts at 0. An attempt is used up by a
// lease that runs out, also if no handler was called: the process was killed before, or the server did not answer for so long.
func (l *jobLedger) mayHaveBeenBuried(job *jobRecord) bool {
	return job.Queue < len(l.attempts) && l.attempts[job.Queue] == fewAttempts ||
		slices.ContainsFunc(job.Calls, func(c *handlerCall) bool { return c.Result == jobDead })
}

// leaseRanOut reports whether the lease of a handler that did its job may have ended before the server heard of it: its process was
// killed, its context told so before the second began, its Run had to return, or the machine stalled its process.
func (l *jobLedger) leaseRanOut(first, second *handlerCall) bool {
	switch first.Cause {
	case "":
		return first.Killed > 0
	case shutDown:
		return true
	case leaseLost:
		late := first.ContextEnd - second.Begin - int64(tolerance)
		return late <= 0 || time.Duration(late) <= l.stalled(first.process, second.Begin-int64(tolerance), first.ContextEnd)
	}
	returned, has := l.runEnds[callID{first.process, first.Run}]
	if has && first.ContextEnd >= returned-int64(tolerance) {
		return true
	}
	from, to := min(first.Begin, second.Begin)-2*int64(l.lease), max(first.Begin, second.Begin)
	return l.stalled(first.process, from, to) > l.lease/4
}

// tolerance is how late a process may be that the machine does not stall.
const tolerance = 60 * time.Millisecond

// stalled returns for how long the machine stalled a process between two times.
func (l *jobLedger) stalled(p *process, from, to int64) (total time.Duration) {
	for _, s := range l.stalls[p] {
		total += time.Duration(max(0, min(s.to, to)-max(s.from, from)))
	}
	return total
}

// judgeAtOnce looks for two handlers that have the job at a time, neither of which has been told that its lease has ended. Those that
// a crash has undone leases of do not count.
func (l *jobLedger) judgeAtOnce(job *jobRecord, report func(kind, format string, args ...any)) {
	calls := slices.Clone(job.Calls)
	slices.SortFunc(calls, func(a, b *handlerCall) int { return cmp.Compare(a.Begin, b.Begin) })
	for i, a := range calls {
		for _, b := range calls[i+1:] {
			both := time.Duration(min(a.valid(), b.valid()) - b.Begin)
			if both <= 0 || l.undone(a.valid()) {
				continue
			}
			allowed := tolerance
			for _, c := range []*handlerCall{a, b} {
				allowed += l.stalled(c.process, b.Begin-int64(tolerance), min(a.valid(), b.valid())+int64(tolerance))
			}
			if both > allowed {
				report(jobAtOnce, "in attempts %d and %d, for %v; the machine stalled them for %v", a.Attempt, b.Attempt, both, allowed-tolerance)
			}
		}
	}
}

// valid returns until when a handler runs and its context says that it has the lease.
func (c *handlerCall) valid() int64 {
	end := never
	for _, at := range []int64{c.End, c.ContextEnd, c.Killed} {
		if at > 0 {
			end = min(end, at)
		}
	}
	return end
}

const never = int64(1<<63 - 1)

// judgeKeys looks for jobs that were pushed while another had their unique key: from when it was pushed until it was begun last.
func (l *jobLedger) judgeKeys(t *jobTally) {
	holders := map[string][]*jobRecord{}
	for _, job := range l.jobs {
		if job.Key != "-" && job.Fate == ledger.Done && l.replicated == 0 && len(job.Calls) > 0 {
			at := fmt.Sprint(job.Queue, " ", job.Key)
			holders[at] = append(holders[at], job)
		}
	}
	for _, jobs := range holders {
		slices.SortFunc(jobs, func(a, b *jobRecord) int { return cmp.Compare(a.Start, b.Start) })
		for i, a := range jobs {
			for _, b := range jobs[i+1:] {
				if b.Start > a.End && b.End < l.held(a) {
					t.Problems = append(t.Problems, jobProblem{jobUnique, fmt.Sprintf("%s, whose key %s had", b.Payload, a.Payload), b})
				}
			}
		}
	}
}

// held returns until when the job had its unique key at least: until it was begun last, or first if it may have been buried. An attempt
// whose lease had run out before it was begun does not tell.
func (l *jobLedger) held(j *jobRecord) (until int64) {
	last := slices.MaxFunc(j.Calls, func(a, b *handlerCall) int { return cmp.Compare(a.Attempt, b.Attempt) }).Attempt
	until = never
	for _, c := range j.Calls {
		if c.Attempt == last || l.mayHaveBeenBuried(j) {
			until = min(until, c.Begin)
		}
	}
	return until
}
