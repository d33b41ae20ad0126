package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

var heading = fmt.Sprintf("%-10s %-18s %7s %9s %7s %6s %6s %7s %10s %6s %6s %6s %6s %10s", "fault", "server", "time", "calls", "rounds", "gaveup",
	"undec.", "faults", "elements", "lost", "doubl.", "order", "excus.", "wait")

func (r row) line() string {
	return fmt.Sprintf("%-10s %-18s %7v %9d %7d %6d %6d %7d %10d %6d %6d %6d %6d %10v", r.Fault, r.Server, r.Time.Round(time.Second), r.Operations, r.Rounds, r.ByConservation,
		r.Undecided, r.Faults, r.Elements, r.Lost, r.Doubled, r.Disordered, r.Excused, r.LongestWait.Round(time.Millisecond))
}

const intro = `# Reliability

What is promised while things break, and how often it was tried. Written by the program in ` + "`robustness/`" + `:

    cd robustness && %s

Three processes, with three or six clients in a round and fifteen in a queue, use lists on real servers, over connections that the program breaks, on servers that it stops, kills and
moves about. All calls are recorded, with their times by the machine's one monotonic clock.

- A *round* is a fresh list of capacity 1, 2, 3 or 7 and 27 or 54 calls: pushes and pops of one and of many at both ends, blocking pops, LLen,
  LIndex, in a third of them LMove, LSet, LInsert and LRem too. Porcupine looks for an order of the calls that explains all results and what the list holds at
  the end. A call whose outcome is unknown may be done at any time after it began, or never. Rounds with a pop that was given up
  while the server had it are checked for elements lost, doubled or invented only.
- For the second half of the time a *queue* runs: producers at one end, consumers at the other, with calls that move one element,
  a few, or up to a thousand (seven where clients are killed). Each element has to come out once, or to be there at the end, each producer's in order.
- *Calls* are those of rounds, and those of queues that moved something; *elements* are what came out of queues.
- *Time* includes the checks at the end, and that several rows may have been tried at the same time (-parallel). With -join, what a
  run has not tried comes from the runs before it; ` + "`-each 10m -parallel 4 -faults all -seed 1`" + ` tries all.
- *Wait* is the longest that a consumer was blocked while the list had the element that it then got.
- *Faults* are strikes and broken connections, and for cancel the contexts with a deadline of up to 5 ms.
- In crash, replicas, split and minority there are no rounds, and the wait is not measured. In links, split and minority each node of the
  cluster is in a network namespace of its own, and packets between the two sides vanish; a process of clients is on one side.
- In clocks each client process has a standard library whose time.Now is ahead or behind, and servers that are replicated run under
  libfaketime. What each tells is compared with what it should be. First come orderly failovers, with rounds and a queue, then crashes.
- *Excused* are elements that a killed client was popping, or operations that a failover undid.
- The seed repeats which faults strike with which pauses, which request or reply of which connection breaks, and what each client
  calls until a result tells it otherwise. How the machine interleaves all that is not repeated, so neither is a history.

%s

## What is promised

`

const limits = `
## What is not

- A client process that is killed takes along what it was popping: one call's elements for each caller.
- A failover undoes what was not replicated, as in Redis. ` + "`WithReplicas`" + ` makes the caller know.
- LLen, LIndex and LRange after a failover by Sentinel may be answered by the old master, now a replica that lags behind, until
  the client has heard of it: as in Redis. Their results are not checked there; those of all that writes are.
- A push while the list's slot moves may leave a blocked consumer asleep until its slice ends, two seconds at the most.
- The order of elements that a cancelled pop puts back.
- A server that cannot be reached for a minute after a reply was lost: then records are gone.
- Clocks are set apart, and stay so: none jumps while it is used. A server whose own clock jumps by a minute forgets records. So may one
  that takes over with a clock half a minute ahead of its master's.
- A cut drops all packets between two sides, after a moment in which requests come through and replies do not. Links that only lose
  some, or that stay broken one way, are not tried.
`

// page is the report.
func page(rows []row, command string) []byte {
	var b strings.Builder
	about := fmt.Sprintf("Machine: %d cores, %s/%s; clients and servers share it. %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, version())
	fmt.Fprintf(&b, intro, command, about)
	b.WriteString("| fault | promise |\n|---|---|\n")
	last := ""
	for _, r := range rows {
		if r.Fault != last {
			fmt.Fprintf(&b, "| %s | %s |\n", r.Fault, r.Promise)
		}
		last = r.Fault
	}
	b.WriteString("\n## What was seen\n\n")
	b.WriteString("| fault | server | time | calls | rounds | of them by conservation | undecided | faults | elements | lost | doubled | out of order | excused | longest wait |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	broken := ""
	for _, r := range rows {
		order := fmt.Sprint(r.Disordered)
		if r.Fault == "cancel" {
			order += " (not promised)"
		}
		fmt.Fprintf(&b, "| %s | %s | %v | %d | %d | %d | %d | %d | %d | %d | %d | %s | %d | %v |\n", r.Fault, r.Server, r.Time.Round(time.Second), r.Operations, r.Rounds, r.ByConservation,
			r.Undecided, r.Faults, r.Elements, r.Lost, r.Doubled, order, r.Excused, r.LongestWait.Round(100*time.Microsecond))
		if r.Violation != "" {
			broken += fmt.Sprintf("\n**Broken**, %s on %s: %s\n", r.Fault, r.Server, r.Violation)
		}
	}
	b.WriteString(broken)
	b.WriteString("\nA row is repeated, alone on the machine, by its own command, in `robustness/`:\n\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "    %s\n", r.Command)
	}
	b.WriteString(limits)
	return []byte(b.String())
}

func version() string {
	out, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return err.Error()
	}
	words := strings.Fields(string(out))
	return words[0] + " " + words[2] + ", " + runtime.Version() + "."
}
