#!/usr/bin/env python3
"""Executable model of a push whose values do not pass through Lua (design.md, "Values past Lua").

Three commands: a script puts the end shard aside under a name of this operation, RPUSHX or LPUSHX pushes there, and a script puts the
shard back. On a server they are one transaction. Here they are not: other clients act in between, any of the three may be late or
lost, and the client repeats the operation as a usual push under the same number, or fences it. Checked at each step: whoever
opens the list sees the elements of the operations that are recorded, each once and in order; shards between the ends are full.

  aside.py walk FROM TO | mutants [RULE...]   each rule taken away must be caught
"""
import copy
import random
import sys

RULES = {
    "undo": "whoever opens the list puts a shard back that is aside",
    "trim": "and removes what has been pushed there since",
    "mark": "meta says how long the shard was, and at which end",
    "name": "its other name is that of the operation, not of the session",
    "mine": "the last script finishes what its own first script has begun, and nothing else",
    "whole": "and only if all values have come",
    "record": "and only if the operation has not been done or fenced meanwhile",
    "room": "it makes shards of what the end shard has no room for",
}
CAP = 3
LIMIT = 6000


class Violation(Exception):
    pass


class List:
    """The keys of one list, and what commands do to them. Ends are 0 (left) and 1 (right)."""

    def __init__(self, rules):
        self.rules, self.keys, self.first, self.last, self.mark = rules, {}, 0, -1, None
        self.records, self.truth = {}, []

    def end(self, side):
        return self.last if side else self.first

    def open(self):
        if not self.mark or "undo" not in self.rules:
            return
        name, side, length, _ = self.mark
        shard = self.keys.pop(name, None)
        if shard is None:
            raise Violation(f"{name} is missing")
        if "trim" in self.rules:
            surplus = len(shard) - (length if "mark" in self.rules else CAP)
            if surplus > 0:
                shard = shard[:-surplus] if side else shard[surplus:]
        self.keys[self.end(side)] = shard
        self.mark = None

    def content(self):
        seen = copy.deepcopy(self)
        seen.open()
        shards = [seen.keys.get(i) for i in range(seen.first, seen.last + 1)]
        if not all(shards) or any(len(s) != CAP for s in shards[1:-1]) or any(len(s) > CAP for s in shards):
            raise Violation(f"the shards are {shards}, mark {seen.mark}")
        return [x for s in shards for x in s]

    def is_new(self, session, number):
        done = self.records.get(session, (0, None))
        return done[0] < number

    def replay(self, session, number):
        done = self.records.get(session, (0, None))
        return ("stale", None) if done[0] > number else done[1]

    def extend(self, side, values):
        """A usual push: shard by shard."""
        for v in values:
            if self.first > self.last or len(self.keys[self.end(side)]) == CAP:
                self.first, self.last = (self.first, self.last + 1) if side else (self.first - 1, self.last)
                self.keys[self.end(side)] = []
            self.keys[self.end(side)].insert(CAP if side else 0, v)

    def applied(self, session, number, side, values):
        if not self.is_new(session, number):
            raise Violation(f"operation {number} of {session} is done after it was fenced")
        self.truth = self.truth + list(values) if side else list(reversed(values)) + self.truth

    # The scripts and commands.

    def push(self, session, number, side, values):
        if not self.is_new(session, number):
            return self.replay(session, number)
        self.open()
        self.extend(side, values)
        self.applied(session, number, side, values)
        self.records[session] = number, ("done", None)
        return "done", None

    def fence(self, session, number):
        if not self.is_new(session, number):
            return self.replay(session, number)
        self.records[session] = number, ("fenced", None)
        return "fenced", None

    def pop(self, session, number, side):
        if not self.is_new(session, number):
            return self.replay(session, number)
        self.open()
        value = None
        if self.first <= self.last:
            shard = self.keys[self.end(side)]
            value = shard.pop(-1 if side else 0)
            if not shard:
                del self.keys[self.end(side)]
                self.first, self.last = (self.first, self.last - 1) if side else (self.first + 1, self.last)
            if value != self.truth.pop(-1 if side else 0):
                raise Violation(f"{value} is popped out of order")
        self.records[session] = number, ("popped", value)
        return "popped", value

    def begin(self, session, number, side, count, name):
        if not self.is_new(session, number) or self.mark or self.first > self.last:
            return
        shard = self.keys.pop(self.end(side))
        self.keys[name] = shard
        self.mark = name, side, len(shard), session

    def pushx(self, name, side, values):
        if self.keys.get(name):
            for v in values:
                self.keys[name].insert(len(self.keys[name]) if side else 0, v)

    def finish(self, session, number, side, values, name):
        if not self.mark or (self.mark[0] != name and "mine" in self.rules):
            return None
        if not self.is_new(session, number) and "record" in self.rules:
            self.open()
            return None
        at, _, length, _ = self.mark
        if len(self.keys[at]) != length + len(values) and "whole" in self.rules:
            self.open()
            return None
        shard, over = self.keys.pop(at), []
        if "room" in self.rules:
            shard, over = (shard[:CAP], shard[CAP:]) if side else (shard[-CAP:], shard[:-CAP])
        self.keys[self.end(side)], self.mark = shard, None
        while over:
            self.first, self.last = (self.first, self.last + 1) if side else (self.first - 1, self.last)
            self.keys[self.end(side)], over = (over[:CAP], over[CAP:]) if side else (over[-CAP:], over[:-CAP])
        self.applied(session, number, side, values)
        self.records[session] = number, ("done", None)
        return "done", None


class Client:
    """A session: one operation at a time."""

    def __init__(self, walk, name):
        self.walk, self.name, self.number, self.op, self.steps, self.plan = walk, name, 0, None, [], None

    def start(self):
        r, self.number = self.walk.r, self.number + 1
        side = r.randrange(2)
        if r.random() < .4:
            self.op = "pop", side, None
            return
        values = [self.walk.value() for _ in range(r.choice([1, 1, 2, 3, 4, 8]))]
        self.op = "push", side, values
        if r.random() < .8:
            name = f"{self.name}:{self.number}" if "name" in self.walk.list.rules else self.name
            self.steps = [("begin", self.name, self.number, side, len(values), name), ("pushx", name, side, values),
                          ("finish", self.name, self.number, side, values, name)]

    def step(self):
        r, q = self.walk.r, self.walk.list
        if not self.op:
            self.start()
        kind, side, values = self.op
        if self.steps:
            if r.random() < .15:  # the connection breaks: what is on its way may come late, or in part, or never
                if r.random() < .7:
                    self.walk.late.append(self.steps[:r.randrange(1, 4)])
                self.steps = []
                return
            step = self.steps.pop(0)
            if step[0] == "pushx" and r.random() < .05:
                return  # it is refused
            done = self.walk.run(step)
            if not done or r.random() < .15:  # else the reply is lost
                return
        elif r.random() < .15 and kind == "push":
            if q.fence(self.name, self.number)[0] == "fenced":
                self.op = None
                return
            done = q.push(self.name, self.number, side, values)
        else:
            done = q.push(self.name, self.number, side, values) if kind == "push" else q.pop(self.name, self.number, side)
            if r.random() < .15:
                return
        if done[0] not in ("done", "popped"):
            raise Violation(f"operation {self.number} of {self.name} is {done[0]}")
        self.op = None


class Walk:
    def __init__(self, seed, without=None):
        self.r, self.values, self.late = random.Random(seed), 0, []
        self.list = List(set(RULES) - {without})
        self.clients = [Client(self, f"c{i}") for i in range(self.r.choice([1, 2, 3]))]

    def value(self):
        self.values += 1
        return self.values

    def run(self, step):
        return getattr(self.list, step[0])(*step[1:])

    def walk(self):
        for _ in range(self.r.choice([20, 60, 150])):
            if self.late and self.r.random() < .2:
                steps = self.r.choice(self.late)
                self.run(steps.pop(0))
                self.late = [s for s in self.late if s]
            else:
                self.r.choice(self.clients).step()
            if self.list.content() != self.list.truth:
                raise Violation(f"the list is {self.list.content()} instead of {self.list.truth}")


def violation(seed, without=None):
    try:
        Walk(seed, without).walk()
    except (Violation, KeyError) as e:
        return repr(e)


if __name__ == "__main__":
    a = sys.argv[1:] or ["walk", "0", "3000"]
    if a[0] == "walk":
        for seed in range(int(a[1]), int(a[2])):
            if problem := violation(seed):
                sys.exit(f"walk {seed}: {problem}")
        print(f"walks {a[1]} to {a[2]}: no violation")
    else:
        missed = 0
        for rule in a[1:] or RULES:
            found = next(((seed, v) for seed in range(LIMIT) if (v := violation(seed, rule))), None)
            print(f"without {rule} ({RULES[rule]}): " + (f"{found[1]} (walk {found[0]})" if found else "NOT CAUGHT"))
            missed += not found
        sys.exit(missed)
