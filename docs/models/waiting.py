#!/usr/bin/env python3
"""Executable model of callers that wait at an empty list (design.md, "Blocking").

A process waits in one of two ways: by a BLPOP on the list's bell with the pop behind it, or by a subscription to the channel of the
bell, which its lists share. A pop that is about to wait arms the empty list; a push into an armed list rings: one dummy for one BLPOP,
one message for each subscriber. Steps of clients, deliveries of messages and losses of connections happen in any order. Checked after
each walk, once nothing is on its way any more: if the list has elements, nobody waits.

  waiting.py walk FROM TO | mutants [RULE...]   each rule taken away must be caught
"""
import random
import sys

RULES = {
    "publish": "a ring is a dummy and a message",
    "look": "who has subscribed looks at the list before it waits",
    "keep": "a message that comes while nobody waits is kept for the next one who does",
    "lost": "who waits looks at the list when the subscription is lost",
    "on": "a woken pop that leaves elements rings on",
    "arm": "a woken pop that leaves none arms the list again",
    "owed": "a caller that goes after it was woken has the list looked at",
    "dummy": "the dummy stays until a BLPOP takes it or the list is armed again",
}
LIMIT = 4000


class Violation(Exception):
    pass


class Server:
    def __init__(self, rules):
        self.rules, self.length, self.armed, self.bell, self.blocked, self.subscribers = rules, 0, False, 0, [], []

    def ring(self):
        if self.blocked:
            self.blocked.pop(0).pop("woken")  # the server takes the pipeline on in the same moment
        elif "dummy" in self.rules:
            self.bell = 1
        for process in self.subscribers if "publish" in self.rules else []:
            process.messages += 1

    def push(self, n):
        self.length += n
        if self.armed:
            self.armed = False
            self.ring()

    def pop(self, wait):
        """One element, if there is one. Reports whether there was none, so that the list is armed now."""
        taken = min(1, self.length)
        self.length -= taken
        if self.length and wait == "woken" and "on" in self.rules:
            self.ring()
        if not self.length and (wait == "woken" or not taken) and (wait == "first" or "arm" in self.rules):
            self.armed, self.bell = True, 0
        return not taken


class Process:
    """It has callers that wait at the list, each in its own way, and one subscription for all of them."""

    def __init__(self, walk):
        self.walk, self.server, self.messages, self.subscribed, self.kept = walk, walk.server, 0, False, False
        self.callers = [Caller(self) for _ in range(walk.r.choice([1, 2]))]
        self.listening = []

    def steps(self):
        if self.messages:
            yield self.receive
        if self.subscribed and self not in self.server.subscribers:
            yield self.notice
        for caller in self.callers:
            if caller.state not in ("idle", "listens", "blocked"):
                yield caller.step

    def receive(self):
        self.messages -= 1
        if self.listening:
            self.listening.pop(0).state = "woken"
        elif "keep" in self.walk.rules:
            self.kept = True

    def lose(self):
        """The connection breaks, with all messages on it."""
        if self in self.server.subscribers:
            self.server.subscribers.remove(self)
            self.messages = 0

    def notice(self):
        self.subscribed = False
        if "lost" in self.walk.rules:
            for caller in self.listening:
                caller.state = "woken"
            self.listening = []


class Caller:
    def __init__(self, process):
        self.process, self.server, self.state = process, process.server, "idle"

    def pop(self, wait):
        self.state = "armed" if self.server.pop(wait) else "idle"

    def step(self):
        p = self.process
        if self.state == "asks":
            self.pop("first")
        elif self.state == "woken":
            self.pop("woken")
        elif self.state == "armed" and p.walk.r.random() < .3:
            self.state = "blocked"
            self.server.blocked.append(self)
            if self.server.bell:
                self.server.bell = 0
                self.server.blocked.pop().pop("woken")
        elif not p.subscribed:
            p.subscribed, p.kept = True, False
            self.server.subscribers.append(p)
            self.state = "woken" if "look" in p.walk.rules else "listens"
            if self.state == "listens":
                p.listening.append(self)
        elif p.kept:
            p.kept, self.state = False, "woken"
        else:
            self.state = "listens"
            p.listening.append(self)

    def leave(self):
        """The caller's context ends."""
        if self.state == "listens":
            self.process.listening.remove(self)
            self.state = "idle"
        elif self.state == "woken" and "owed" not in self.process.walk.rules:
            self.state = "idle"


class Walk:
    def __init__(self, seed, without=None):
        self.r, self.rules = random.Random(seed), set(RULES) - {without}
        self.server = Server(self.rules)
        self.processes = [Process(self) for _ in range(self.r.choice([1, 2, 3]))]

    def walk(self):
        callers = [c for p in self.processes for c in p.callers]
        for _ in range(self.r.choice([10, 30, 80])):
            what = self.r.random()
            if what < .15:
                self.server.push(self.r.choice([1, 1, 2]))
            elif what < .2:
                self.server.length = max(0, self.server.length - 1)  # somebody pops who does not wait
            elif what < .25:
                self.r.choice(self.processes).lose()
            elif what < .3:
                self.r.choice(callers).leave()
            elif what < .5:
                if (caller := self.r.choice(callers)).state == "idle":
                    caller.state = "asks"
            elif steps := [s for p in self.processes for s in p.steps()]:
                self.r.choice(steps)()
        for _ in range(1000):
            if not (steps := [s for p in self.processes for s in p.steps()]):
                break
            self.r.choice(steps)()
        else:
            raise Violation("it never comes to rest")
        if self.server.length and any(c.state != "idle" for c in callers):
            raise Violation(f"{[c.state for c in callers]} beside {self.server.length} elements")


def violation(seed, without=None):
    try:
        Walk(seed, without).walk()
    except Violation as e:
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
