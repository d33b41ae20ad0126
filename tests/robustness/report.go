package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

var heading = fmt.Sprintf("%-10s %-18s %-12s %7s %9s %7s %6s %6s %7s %10s %6s %6s %6s %6s %6s %10s %6s", "fault", "server", "clients", "time", "calls", "rounds", "gaveup",
	"undec.", "faults", "elements", "lost", "doubl.", "order", "half", "excus.", "wait", "again")

func (r row) line() string {
	return fmt.Sprintf("%-10s %-18s %-12s %7v %9d %7d %6d %6d %7d %10d %6d %6d %6d %6d %6d %10s %6s", r.Fault, r.Server, r.Clients, r.Time.Round(time.Second), r.Operations, r.Rounds, r.ByConservation,
		r.Undecided, r.Faults, r.Elements, r.Lost, r.Doubled, r.Disordered, r.HalfDone, r.Excused, r.wait(time.Millisecond), r.again())
}

// again is how many times jobs were done again, or a dash where there are none.
func (r row) again() string {
	if r.Clients != queueJobs {
		return "–"
	}
	return fmt.Sprint(r.Again)
}

// wait is the longest wait, or a dash where none was measured.
func (r row) wait(unit time.Duration) string {
	if r.LongestWait == 0 {
		return "–"
	}
	return r.LongestWait.Round(unit).String()
}

const limits = `
## What is not promised

- A client process that is killed takes the elements that it was popping with it: those of one call for each caller.
- A failover undoes what was not replicated, as in Redis. ` + "`WithReplicas`" + ` tells the caller.
- Where a failover takes the pointers of a spread list back, elements pushed after it may come to lie before some that were pushed shortly
  before it, on other nodes.
- After a failover by Sentinel, LLen, LIndex and LRange may read from the old master, which is then a replica that lags behind,
  until the client hears of the failover. This is the same in Redis. The program does not check their results there; it checks the
  results of all operations that write.
- A push while the list's slot moves may leave a blocked consumer asleep until its ` + "`BLPOP`" + ` times out: two seconds at most.
- A pop that is given up puts its elements back, possibly out of order.
- A server that is unreachable for thirty seconds after a pop gave up: the elements of the pop are lost. After a minute the dedup
  record of an operation has expired.
- Clocks differ but do not jump. A server whose own clock jumps by a minute expires dedup records early. So may a replica that takes
  over with a clock more than twenty seconds ahead of its master's.
- A job is done again if its lease runs out: if its process is killed, stopped, or cut off from the server for as long as that. The context of
  its handler tells, if that process lives.
- A server that is killed while it writes its append-only file may leave a part of a script there. Redis (7.0 and 8.0 were tried), and Valkey
  up to 8, [carry that part out](https://github.com/valkey-io/valkey/pull/4342) when they start for the second time: an element is doubled,
  lost, or a job counted twice. Valkey 9.1 does not. The program mends the file before each start, as ` + "`redis-check-aof --fix`" + ` does.
- A cut drops all packets between two sides; for a moment before that, only requests pass. Links that lose some packets, or that stay
  broken in one direction, are not tried.
`

const method = `
## How it is measured

Three client processes use lists on real servers. The program breaks their connections, and stops, kills and moves the servers. It
records every call with its start and end on the machine's monotonic clock.

- A *round* is a new list of capacity 1, 2, 3 or 7, three or six clients, and 27 or 54 calls: pushes and pops of one element and of
  several at both ends, blocking pops, LLen and LIndex; a third of the rounds add LMove, LSet, LInsert, LRem and LPos. Porcupine looks for an
  order of the calls that explains all results and the list's content at the end. A call whose outcome is unknown may take effect at
  any time after its start, or never.
- *By conservation* are rounds in which a caller abandoned a pop that the server had received. They are checked for lost,
  duplicated and invented elements only. *Undecided* are rounds that Porcupine could not decide in time.
- Clients call *methods* of a ShardedList, or *pipelines* or *transactions* of a client with the hook. Pipelines
  and transactions have a queue all the time, and no rounds. Go-redis repeats nothing by itself for a third of them.
- *Steps* are methods in rounds of which half of the calls edit or search, a shard or two in a step. They are not tried in a crash.
- A *crowd* calls methods, and each process waits on 200 other lists, with one connection that may block: so subscriptions wake. It has a queue
  all the time, and is not tried in a crash.
- A *pipeline* has up to four commands on two lists, each with a result of its own.
- A *transaction* pushes the same elements to two lists, or takes one from each and pushes a mark to a third. Half of them also set a
  bit in a plain key for each element. It is *half done* if its results disagree, if the two lists ever differ, or if the bits are not
  those of the elements that were pushed.
- *Moves* are of three lists through the hook, of which the second does not match and stays a plain list. Consumers call BLMOVE from the first
  to the second and from the second to the third, and BLPOP and LMPOP of all three. They are not tried in a crash.
- A *rollout* begins with a plain list of 5,000 elements. Half of its producers have no hook, and push to the plain list; go-redis repeats
  nothing for them, so a push whose reply is lost counts as unknown. The others, and the consumers, use the hook, with commands that
  are not in a pipeline. Each process also calls Adopt, and at times Restore before it. Half of these calls are given up after 5 ms at
  most. At the end the list must be sharded. The order of a plain push that timed out is not checked, since it may arrive late;
  nor is the wait for elements of plain pushes measured, since they wake nobody. A round of a rollout begins with a plain list or none. A
  third of its clients push to the plain list, a third use the hook, and a third methods, while Adopt and Restore are called: pushes
  at the right end and pops at the left one, LLen and LIndex. In slot there are no rounds of rollouts: while the slot moves, elements of
  plain producers stay at the plain key, behind what others push. In a crash there is no plain producer.
- *Spread* are methods of a list that is spread over five parts, in rounds over 1, 2, 3 or 64. No push is larger than what is atomic there;
  the calls of a round move one element each, and the length that a push returns is not compared. In slot, the slots of the parts and of
  the pointers move. In a crash, the node fails that has the pointers and some of the parts; what goes to other nodes meanwhile stays. So
  what is undone must have returned less than half a second before the replica stopped to follow, or later, and may have gaps. After
  it, a repair runs, and then everything else must be there.
- *Jobs* use the package queue: six producers, and four workers of each process for each of three queues. One has no limits, one lets five
  jobs run at once and tries each three times, one begins 120 a second and takes them from the right end. Leases last a second. Jobs are
  delayed, unique, pushed alone or several at once. Handlers fail, panic, give up for good, and take up to 1.6 leases. For twenty seconds at
  most all of this goes on. Then the workers stop, and the keys are checked: each job is in one place, waiting, delayed, leased or dead; the
  sorted set and the hash agree; the lists are whole; each job that was acknowledged and has not been done is there. Then the workers start
  again, the dead are tried again, and the queues drain, in half a minute at most. At the end no job and no unique key is left, the servers have
  counted each job as done once, and each that was acknowledged was done.
- *Done again* is how many times a job was done that had been done: after a lease had run out. There must be evidence of that. The attempt is a
  later one, and the process of the first was killed or stalled, its Run was stopped, or the context of its handler has ended with
  ErrLeaseLost. Two handlers never have the same job at a time while the contexts of both say that they have the lease.
- Of jobs also these are checked: one whose push was refused never runs; none runs before it is due; none is pushed while another has its unique
  key; while the queues are in use the server is asked how many jobs are leased, never more than may run at once, and at some time as many;
  no more are begun than the rate allows. The order is not checked. Elements of jobs are those that were done, calls are pushes and calls of
  handlers, and faults in cancel are Runs that were stopped, too. A killed process takes no jobs along. In stall client processes are stopped
  for up to two leases; only jobs are tried with that. Before a crash the program waits until the replica has what
  was acknowledged by then. What comes later may be undone, leases too: a job that is lost or done again because of that is excused. Jobs are not tried with servers
  that take over with another clock: a lease is a time on the clock of the server.
- A *queue* runs for the second half of the time: six producers at one end and nine consumers at the other, with calls that move one
  element, a few, or up to a thousand (seven where clients are killed). Each element must come out once, or be in the list at the end,
  and the elements of each producer must come out in order.
- *Damage* has three producers and three consumers of a list of capacity 3, in the program itself, for two seconds. Meanwhile it deletes
  one to three keys or elements in the middle of the list's keys, and mends the list. At the end each element was popped, deleted or is in
  the list, once, and the list has those of each producer in order. Half of the lists never lose their meta: what is popped there comes
  in order, too. Those that have lost it serve what was pushed since, and get the rest back before that.
- *Calls* are all calls of rounds, and those of queues that moved elements. *Elements* are those that came out of queues.
- *Faults* are events such as a restart, broken connections, and in cancel the contexts with a deadline of up to 5 ms, or in queues the
  pushes that have ended without a result because of one.
- *Excused* are elements that a killed client was popping or that a transaction took whose outcome its caller did not learn, and
  operations that a failover undid; in damage, elements that were deleted.
- *Longest wait* is the longest time for which a consumer was blocked while the list had the element that it then got; – is not
  measured.
- *Time* includes the checks at the end. Several rows may have run at the same time (-parallel).
- Each fault must have struck, and most pushes of a queue must have been acknowledged.
- crash, replicas, split and minority have no rounds, and their waits are not measured. In links, split and minority each node of the
  cluster has its own network namespace. Packets between the two sides vanish; each client process is on one side.
- In clocks each client process has a standard library whose time.Now is ahead or behind, and replicated servers run under
  libfaketime. The program compares each clock with what it should show. Planned failovers, with rounds and a queue, come first,
  then crashes.

## Repeat it

Both pages are written by

    cd tests/robustness && %s

With -join, rows that a run does not try come from earlier runs, whose results are in -out or on this page; ` + "`-each 10m -parallel 4 -faults all -clients all -seed 1`" + ` tries all.
The seed repeats the faults and the pauses between them, which request or reply of which connection breaks, and what each client
calls until a result differs. It does not repeat how the machine interleaves the calls, so histories differ from run to run.
The command of a row, in ` + "`tests/robustness`" + `, repeats that row alone on the machine.
`

// rowsSuffix ends the name of the page that has each row.
const rowsSuffix = "-rows.md"

// write writes the report, for the machine that it was measured on, and the page of its rows beside it.
func write(document string, rows []row, command, machine string) error {
	return errors.Join(os.WriteFile(document, []byte(page(rows, machine)), 0o644), os.WriteFile(beside(document), []byte(rowsPage(rows, command)), 0o644))
}

// beside returns the name of the page of rows.
func beside(document string) string { return strings.TrimSuffix(document, ".md") + rowsSuffix }

// page is what was tried, what is promised, and what is not.
func page(rows []row, machine string) string {
	var b strings.Builder
	b.WriteString(summary(rows, machine))
	b.WriteString("\n## What is promised\n\n| fault | promise |\n|---|---|\n")
	last := ""
	for _, r := range rows {
		if r.Fault != last {
			fmt.Fprintf(&b, "| %s | %s |\n", r.Fault, r.fault().promise)
		}
		last = r.Fault
	}
	b.WriteString(limits)
	return b.String()
}

// rowsPage has the result of each combination, how it is measured, and how to repeat it.
func rowsPage(rows []row, command string) string {
	var b strings.Builder
	b.WriteString("# Reliability, row by row\n\nWhat [reliability.md](reliability.md) sums up.\n\n## Results\n\n")
	b.WriteString("| fault | server | clients | time | calls | rounds | by conservation | undecided | faults | elements | lost | duplicated | out of order | half done | excused | longest wait | done again | command |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	broken := ""
	for _, r := range rows {
		order := fmt.Sprint(r.Disordered)
		if !r.promisesOrder() {
			order += " (not promised)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %v | %d | %d | %d | %d | %d | %d | %d | %d | %s | %d | %d | %s | %s | `%s` |\n", r.Fault, r.Server, r.Clients, r.Time.Round(time.Second), r.Operations, r.Rounds, r.ByConservation,
			r.Undecided, r.Faults, r.Elements, r.Lost, r.Doubled, order, r.HalfDone, r.Excused, r.wait(100*time.Microsecond), r.again(), r.Command)
		if r.Violation != "" {
			broken += "\n" + r.broken() + strings.Join(strings.Fields(r.Violation), " ") + "\n"
		}
	}
	b.WriteString(broken)
	fmt.Fprintf(&b, method, command)
	return b.String()
}

// broken begins the sentence on a row that broke a promise.
func (r row) broken() string {
	return fmt.Sprintf("**Broken**, %s on %s by %s: ", r.Fault, r.Server, r.Clients)
}

// summary is the head of the page: what was tried, for how long, and what came of it.
func summary(rows []row, machine string) string {
	var sum, unordered row
	var killed, undone, deleted, jobs int64
	var faults, servers, clients []string
	broken := 0
	for _, r := range rows {
		sum.Time += r.Time.Round(time.Second)
		sum.Operations += r.Operations
		sum.Again += r.Again
		if r.Clients == queueJobs {
			jobs += r.Elements
		} else {
			sum.Elements += r.Elements
		}
		sum.Rounds += r.Rounds
		sum.ByConservation += r.ByConservation
		sum.Undecided += r.Undecided
		sum.Faults += r.Faults
		sum.Lost += r.Lost
		sum.Doubled += r.Doubled
		sum.HalfDone += r.HalfDone
		if r.promisesOrder() {
			sum.Disordered += r.Disordered
		} else {
			unordered.Disordered += r.Disordered
		}
		switch f := r.fault(); {
		case f.crash:
			undone += r.Excused
		case f.damage:
			deleted += r.Excused
		default:
			killed += r.Excused
		}
		if r.Violation != "" {
			broken++
		}
		if !slices.Contains(faults, r.Fault) {
			faults = append(faults, r.Fault)
		}
		if !slices.Contains(servers, r.Server) {
			servers = append(servers, r.Server)
		}
		if !slices.Contains(clients, r.Clients) {
			clients = append(clients, r.Clients)
		}
	}
	ofJobs := ""
	if slices.Contains(clients, queueJobs) {
		ofJobs = fmt.Sprintf("\n- **Jobs:** %s were done, %s of them again after a lease had run out.", thousands(jobs), thousands(sum.Again))
	}
	return fmt.Sprintf(`# Reliability

The program in [tests/robustness/](../tests/robustness) breaks connections, servers, clients, clocks and networks while several processes use
lists, and checks the results of all calls.

- **Tried:** %d faults on %d kinds of server with clients that call %s, %d combinations, for %v in total; the faults struck %s times.
- **Operations:** %s calls, and %s elements popped.%s
- **Lost: %s. Duplicated: %s. Out of order: %s. Transactions half done: %s.** Combinations that broke a promise: %d.
- **Histories:** %s short ones of concurrent calls. An order of the calls explains every result of %s; %s with an abandoned pop
  were checked for lost, duplicated and invented elements only; %s were not decided in time.
- **Excused:** %s elements that killed clients were popping, %s operations that failovers undid, as in Redis, and %s
  elements of shards that somebody deleted.
- **Order is not promised** where a pop that was given up put its elements back, as in cancel, and around a crash of a node of a spread
  list; out of order there: %s.
- **Machine:** %s

[Each combination](reliability-rows.md), how it is measured, and how to repeat it.
`, len(faults), len(servers), strings.Join(clients, ", "), len(rows), sum.Time, thousands(sum.Faults), thousands(sum.Operations), thousands(sum.Elements), ofJobs,
		thousands(sum.Lost), thousands(sum.Doubled), thousands(sum.Disordered), thousands(sum.HalfDone), broken,
		thousands(sum.Rounds), thousands(sum.Rounds-sum.ByConservation-sum.Undecided), thousands(sum.ByConservation), thousands(sum.Undecided), thousands(killed), thousands(undone), thousands(deleted), thousands(unordered.Disordered), machine)
}

// fault is the row's, or the zero fault if there is no such one any more.
func (r row) fault() fault {
	for _, f := range faults {
		if f.name == r.Fault && slices.ContainsFunc(f.kinds, func(kind redistest.Kind) bool { return string(kind) == r.Server }) {
			return f
		}
	}
	return fault{}
}

// promisesOrder reports whether elements must come out in order: not where pops were given up, whose elements went back. Then
// elements out of order are no violation.
func (r row) promisesOrder() bool {
	return !r.fault().cancel && (r.Disordered == 0 || r.Violation != "")
}

// thousands writes a number with commas.
func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// machine describes the machine that the program runs on.
func machine() string {
	return fmt.Sprintf("%d cores, %s/%s, shared by clients and servers; %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, version())
}

func version() string {
	out, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return err.Error()
	}
	words := strings.Fields(string(out))
	return words[0] + " " + strings.TrimPrefix(words[2], "v=") + ", " + runtime.Version() + "."
}
