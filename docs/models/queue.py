#!/usr/bin/env python3
"""Executable model of package queue (queue.md, "How it works"). Every step below is one atomic script; any number of processes
interleave them. Replies are lost, processes die, handlers hang and outlive their leases.

Checked at each step: every job is in exactly one place (waiting, delayed, leased, dead, or done); there are never more leases
than the concurrency; no window has more starts than the rate and its burst, or the higher of two that processes have; a job is done
twice only if a lease ran out.
Checked at the end: all jobs are done or dead, though nobody polls: a blocked process wakes by the bell or by its own timer.
Only after a process has died may its share of the waiting take a poll to be noticed.

  queue.py walk FROM TO      random walks, many sizes
  queue.py mutants [RULE...] each rule taken away must be caught
"""
import math
import random
import sys

LIMIT = 6000
RULES = {
    "arm": "a take that finds the list empty and waits arms it",
    "waits": "a process that waits while the concurrency is used up says so",
    "restore_waits": "a woken take that leaves says again that others wait",
    "hand_over": "a woken take that leaves jobs behind, or its timer, rings again",
    "own_guard": "the timer that a process relies on is that of another process",
    "earlier": "a delayed job that comes before the timer rings",
    "end_rings": "a job that ends rings for those who wait for the concurrency",
    "resume_rings": "Resume rings for those who wait",
    "name": "a job is settled, or its lease extended, by whoever has the lease: each has a name of its own",
    "expired_first": "a lease that has run out is taken before new jobs",
    "count_leased": "jobs that run count against the concurrency",
    "tokens": "every start takes a token",
    "pace": "what is owed to the bucket counts in tokens, by the limits of the take before",
    "record": "an operation that is sent again returns what it did",
}


class Violation(Exception):
    pass


class Queue:
    """The keys of one queue, and what scripts do to them."""

    def __init__(self, rules, concurrency, limits, lease, attempts):
        self.rules, self.concurrency, self.limits, self.lease, self.attempts = rules, concurrency, limits, lease, attempts
        self.now = 0
        self.waiting, self.leased, self.delayed, self.dead, self.done = [], {}, {}, [], []
        self.tat, self.pace, self.paused = 0, None, False
        self.armed, self.waits, self.guard, self.bell = False, None, None, 0
        self.names = 0
        self.starts, self.seen, self.ran_out = [], [], set()  # for the checks

    def has(self, rule):
        return rule in self.rules

    def ring(self):
        self.bell = 1

    def push(self, job):
        self.seen.append(job)
        self.waiting.append((job, 0))
        if self.armed:
            self.armed = False
            self.ring()

    def delay(self, job, attempt, due):
        self.delayed[job] = (due, attempt)
        guarded = self.guard and self.now < self.guard[0] <= due
        if self.waits and not guarded and self.has("earlier"):
            self.waits = None
            self.ring()

    def take(self, me, count, woken):
        """Returns the jobs taken, whether the process is to wait, and until when."""
        interval, burst = self.limits[me % len(self.limits)]
        tokens = count
        if interval:
            self.tat, self.pace = self.counted(interval, burst)
            tokens = int(burst - max(0, self.tat - self.now) / interval + 1e-6)
        budget = 0 if self.paused else min(count, tokens)
        expired = sorted((lease[0], job) for job, lease in self.leased.items() if lease[0] <= self.now)
        if not self.has("expired_first"):
            expired = []
        taken = [job for _, job in expired[:budget]]
        self.ran_out.update((job, self.leased[job][2]) for job in taken)
        room = self.concurrency - (len(self.leased) if self.has("count_leased") else 0) if self.concurrency else count
        budget = max(0, min(budget - len(taken), room))
        due = sorted((at, job) for job, (at, _) in self.delayed.items() if at <= self.now)
        fresh = [job for _, job in due[:budget]]
        budget -= len(fresh)
        got = [(job, self.leased[job][1] + 1) for job in taken] + [(job, self.delayed.pop(job)[1]) for job in fresh]
        got += self.waiting[:budget]
        del self.waiting[:budget]
        self.names += 1
        jobs = [(job, attempt + 1, (self.names if self.has("name") else attempt + 1, self.names)) for job, attempt in got]
        for job, attempt, name in jobs:
            self.leased[job] = (self.now + self.lease, attempt - 1, name)  # with the attempts that have ended
            self.starts.append(self.now)
        if interval and jobs and self.has("tokens"):
            self.tat, self.pace = max(self.tat, self.now) + len(jobs) * interval, (interval, burst)
        event, left, full = self.event(True, interval, burst)
        stays, until = len(jobs) < count, None
        mine = self.guard and self.guard[1] == me
        if mine and self.has("own_guard") or self.guard and self.guard[0] <= self.now:
            self.guard = None
        covered = event is None or self.guard and self.guard[0] <= event
        if stays and not covered:
            self.guard, until = (event, me), event
        elif (woken or mine) and not covered and self.has("hand_over"):
            self.ring()
            return jobs, False, None
        if stays or woken and self.has("restore_waits"):
            if not self.waiting and self.has("arm"):
                self.armed, self.bell = True, 0
            self.waits = "concurrency" if full and self.has("waits") else "jobs"
        return jobs, stays, until

    def counted(self, interval, burst):
        """The state of the bucket, if it goes on with these limits: its tat, the interval of that, and how much may be owed."""
        was_interval, most = self.pace if self.pace and self.has("pace") else (interval, burst)
        owed = (self.tat - self.now) / was_interval
        if owed <= 0 or was_interval == interval and owed <= most:
            return self.tat, (was_interval, most)
        return self.now + min(owed, most) * interval, (interval, most)

    def event(self, leases, interval, burst):
        """When the next job may be taken, if nothing happens before, whether there is one now but for limits, and whether the
        concurrency is used up."""
        full = self.concurrency and len(self.leased) >= self.concurrency
        left = bool(self.waiting) or any(at <= self.now for at, _ in self.delayed.values())
        ends = [lease[0] for lease in self.leased.values()] if leases else []
        moments = ends + ([] if full else [at for at, _ in self.delayed.values()])
        event = self.now if left and not full else min(moments, default=None)
        if event is not None and interval:
            event = max(event, math.ceil(self.counted(interval, burst)[0] - (burst - 1) * interval - 1e-6))
        return None if self.paused else event, left, full

    def holds(self, job, name):
        if job not in self.leased or self.leased[job][2][0] != name[0]:
            return False
        if self.leased[job][2] != name:
            raise Violation(f"{job} is taken for that of another lease")
        return True

    def settle(self, job, name, how, delay=0):
        if not self.holds(job, name):
            return False
        attempt = self.leased.pop(job)[1]
        if how == "done":
            self.done.append(job)
        elif how == "dead":
            self.dead.append(job)
        else:
            self.delay(job, attempt + (how == "retry"), self.now + delay)
        if self.waits == "concurrency" and self.has("end_rings"):
            self.waits = None
            self.ring()
        return True

    def extend(self, job, name):
        if self.holds(job, name):
            self.leased[job] = (self.now + self.lease, *self.leased[job][1:])
            return True
        return False

    def retry(self):
        if self.dead:
            self.delay(self.dead.pop(0), 0, self.now)

    def resume(self):
        self.paused = False
        if self.waits and self.has("resume_rings"):
            self.waits = None
            self.ring()

    def check(self):
        places = [j for j, _ in self.waiting] + list(self.leased) + list(self.delayed) + self.dead + self.done
        if sorted(places) != sorted(self.seen):
            raise Violation(f"not each job is in one place: {sorted(self.seen)} pushed, {sorted(places)} there")
        if self.concurrency and len(self.leased) > self.concurrency:
            raise Violation(f"{len(self.leased)} leases")
        interval, burst = min(i for i, _ in self.limits), max(b for _, b in self.limits)
        if interval:
            for i, first in enumerate(self.starts):
                for window in (1, 5, 20):
                    inside = sum(first <= s < first + window * interval for s in self.starts[i:i + window + burst + 2])
                    if inside > window + burst:
                        raise Violation(f"{inside} starts in {window} intervals, burst {burst}")


class Process:
    def __init__(self, name, workers):
        self.name, self.workers, self.running, self.state, self.count, self.until = name, workers, [], "free", 0, None
        self.returned = []  # handlers have, and their leases are not settled

    def idle(self):
        return min(self.workers - len(self.running), 2 * self.workers - len(self.running) - len(self.returned))


class Walk:
    def __init__(self, seed, without=None):
        r = self.r = random.Random(seed)
        rules = set(RULES) - {without}
        limits = [(r.choice([0, 0, 3]), r.choice([1, 2, 4]))]
        if limits[0][0] and r.random() < .5:
            limits.append((r.choice([3, 5]), r.choice([1, 2, 8])))  # every second process has been replaced
        self.q = Queue(rules, r.choice([0, 0, 1, 2, 3]), limits, 20, r.choice([2, 9]))
        self.processes = [Process(i, r.choice([1, 1, 2, 3])) for i in range(r.choice([1, 2, 3]))]
        self.mortal = r.random() < .3 and len(self.processes) > 1
        self.sluggish = self.careless = r.random() < .3  # handlers may outlive their leases
        self.late = []  # copies of settles that are on their way
        self.todo, self.next, self.died = r.choice([5, 12, 25]), 0, False

    def wake(self, p):
        """What ends a BLPOP of a process, if anything does."""
        q = self.q
        if q.bell:
            q.bell = 0
            return True
        return p.until is not None and q.now >= p.until

    def begin(self, p, jobs):
        for job, attempt, name in jobs:
            for held in (h for other in self.processes for h in other.running if h[0] == job):
                if (job, held[2]) not in self.q.ran_out:
                    raise Violation(f"{job} is begun again while another process holds it")
            p.running.append((job, attempt, name))

    def take(self, p, woken):
        jobs, stays, until = self.q.take(p.name, p.count, woken)
        if self.r.random() < .1 and not self.q.has("record"):
            jobs, stays, until = self.q.take(p.name, p.count, woken)  # the reply was lost
        if self.q.ran_out and not self.died and not self.careless:
            raise Violation("a lease ran out, though no process died or slept")
        self.begin(p, jobs)
        p.state, p.until = ("blocked", until) if stays else ("free", None)
        if jobs and stays:
            p.state = "free"  # it asks again for the workers that are left

    def check(self):
        """Nobody sleeps while there is something to take, or past the moment at which there will be."""
        self.q.check()
        events = [self.q.event(False, *limits)[0] for limits in self.q.limits]
        event = None if None in events else max(events)  # it may be that those with the lower limit look
        blocked = [p for p in self.processes if p.state == "blocked"]
        free = any(p.state == "free" and p.idle() > 0 for p in self.processes)
        if event is None or not blocked or free or self.q.bell or self.died:
            return
        if all(p.until is None or p.until > max(event, self.q.now) for p in blocked):
            raise Violation(f"all sleep past {event}, now {self.q.now}")

    def step(self, p):
        r, q = self.r, self.q
        if p.state == "blocked":
            if self.wake(p):
                self.take(p, True)
                return True
        elif p.idle() > 0:
            p.count = p.idle()
            self.take(p, False)
            return True
        return False

    def finish(self, p):
        r, q = self.r, self.q
        job, attempt, name = p.running.pop(r.randrange(len(p.running)))
        how, delay = r.choice([("done", 0), ("done", 0), ("done", 0), ("retry", r.choice([0, 2, 9])), ("back", 0)])
        if attempt >= q.attempts and how == "retry":
            how = "dead"
        p.returned.append((job, attempt, name, how, delay))

    def settle(self, p):
        while p.returned and self.r.random() < .8:
            job, _, *ending = p.returned.pop(0)
            self.q.settle(job, *ending)
            if self.r.random() < .2:
                self.late.append((job, *ending))

    def come_late(self):
        """A copy of a settle arrives, which has no record: the lease is over, and no other has its name."""
        if self.late and self.q.settle(*self.late.pop(self.r.randrange(len(self.late)))):
            raise Violation("a late copy of a settle ends another lease")

    def die(self):
        p = self.r.choice(self.processes)
        if len(self.processes) > 1:
            self.processes.remove(p)
            self.died = True

    def heartbeats(self):
        q = self.q
        for p in self.processes:
            if not (self.sluggish and self.r.random() < .9):
                p.running = [(j, a, n) for j, a, n in p.running if q.extend(j, n)]
                p.returned = [e for e in p.returned if q.extend(e[0], e[2])]

    def tick(self):
        self.q.now += 1
        if self.q.now % 6 == 0:
            self.heartbeats()

    def run(self):
        r, q = self.r, self.q
        for _ in range(60 + 30 * self.todo):
            x = r.random()
            if x < .15 and self.next < self.todo:
                if r.random() < .7:
                    q.push(self.next)
                else:
                    q.seen.append(self.next)
                    q.delay(self.next, 0, q.now + r.choice([0, 1, 5, 30]))
                self.next += 1
            elif x < .5:
                self.step(r.choice(self.processes))
            elif x < .7:
                p = r.choice(self.processes)
                if p.running and (not self.sluggish or r.random() < .1):
                    self.finish(p)
                if r.random() < .8:
                    self.settle(p)
            elif x < .72:
                q.paused = True
            elif x < .76:
                q.resume()
            elif x < .78:
                q.retry()
            elif x < .785 and self.mortal:
                self.die()
            elif x < .95:
                self.tick()
            elif x < .97:
                self.come_late()
            self.check()
        if q.paused:
            q.resume()
        self.sluggish = False
        idle = 0
        for _ in range(4000):  # from now on nothing happens but what somebody is woken for
            acted = any([self.step(p) for p in self.processes])
            busy = [p for p in self.processes if p.running or p.returned]
            if busy:
                p = r.choice(busy)
                if p.running:
                    self.finish(p)
                self.settle(p)
            if not self.next or idle > 200:
                break
            if not acted and not busy:
                self.tick()
                idle += 1
                if self.died and idle % 50 == 0:  # the poll
                    for p in self.processes:
                        if p.state == "blocked":
                            self.take(p, True)
            elif busy:
                idle = 0
            self.check()
        if len(q.done) + len(q.dead) != len(q.seen):
            raise Violation(f"{len(q.waiting)} waiting, {len(q.delayed)} delayed, {len(q.leased)} leased, and nobody comes")


if __name__ == "__main__":
    a = sys.argv[1:] or ["walk", "0", "2000"]
    if a[0] == "walk":
        for seed in range(int(a[1]), int(a[2])):
            try:
                Walk(seed).run()
            except Violation as v:
                sys.exit(f"walk {seed}: {v}")
        print(f"walks {a[1]} to {a[2]}: no violation")
    else:
        missed = 0
        for rule in (a[1:] or sorted(RULES)):
            for seed in range(LIMIT):
                try:
                    Walk(seed, rule).run()
                except Violation as v:
                    print(f"without {rule} ({RULES[rule]}): {v} (walk {seed})")
                    break
            else:
                missed += 1
                print(f"without {rule}: NOT CAUGHT")
        sys.exit(missed)
