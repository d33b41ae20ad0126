#!/usr/bin/env python3
"""Executable model of the repair of a list in one slot (design.md, "Repair").

Others delete keys of a list, its meta too, while clients push and pop. Repairs, perhaps two at a time, go through their steps, each of
which is one script, die in between, and are begun again. Checked when one has ended and nothing was deleted since: each element that was
pushed, not popped, and not deleted is in the list once, in the order of its generation, and each shard between the ends is as long as
its capacity says.

  repair.py walk FROM TO | mutants [RULE...]   each rule taken away must be caught
"""
import random
import sys

RULES = {
    "begun": "shards whose meta is lost become the list only if no other has begun, as the same step finds",
    "twice": "that step replies that it was done if its shards are the list by then, and shards that the list has do not join it again",
    "inner": "shards join an end from their inner end outward",
    "missing": "a gap is closed only where the same step finds no shard",
    "ends": "a gap that has come to an end of the list moves the pointer",
    "fits": "the length of a shard that has lost elements becomes its capacity",
}
CAP, ACTIONS, MOVES = 2, 120, 2


class Violation(Exception):
    pass


class Broken(Exception):
    """The reply to an operation that meets a missing shard."""


class Server:
    def __init__(self, rules, side):
        self.rules, self.shards, self.plain, self.meta = rules, {}, [], None
        self.joined = set()  # generations of which shards have joined another list
        self.side = side  # at which lost shards join another list
        self.eras, self.made, self.alive = {0: []}, 0, set()  # the order of each generation; 0 is before there is one

    # The list. A short one is the plain key; where there is a meta, what is there are newcomers, which join the right end.

    def cap(self, i):
        return self.meta["caps"].get(i, CAP)

    def era(self):
        return self.eras[self.meta["prefix"] if self.meta else 0]

    def key(self, i):
        return self.meta["prefix"], i

    def open(self):
        if self.meta and self.plain:
            taken, self.plain = self.plain, []
            try:
                for x in taken:
                    self.add(1, x)
            except Broken:
                self.plain = taken[taken.index(x):]
                raise

    def outgrow(self):
        self.made += 1
        self.meta = {"prefix": self.made, "first": 0, "last": 0, "caps": {}}
        self.shards[self.made, 0], self.plain = self.plain, []
        self.eras[self.made], self.eras[0] = self.eras[0], []

    def add(self, side, x):
        end = self.meta["last" if side else "first"]
        if self.key(end) not in self.shards:
            raise Broken
        if len(self.shards[self.key(end)]) >= self.cap(end):
            end += 1 if side else -1
            self.shards[self.key(end)] = []
            self.meta["last" if side else "first"] = end
            self.meta["caps"].pop(end, None)
        self.shards[self.key(end)].insert(len(self.shards[self.key(end)]) if side else 0, x)

    def push(self, side, x):
        self.open()
        if not self.meta and len(self.plain) >= CAP:
            self.outgrow()
        if self.meta:
            self.add(side, x)
        else:
            self.plain.insert(len(self.plain) if side else 0, x)
        self.era().insert(len(self.era()) if side else 0, x)
        self.alive.add(x)

    def pop(self, side):
        self.open()
        if not self.meta:
            if self.plain:
                self.alive.remove(self.plain.pop(-side))
            return
        end = self.meta["last" if side else "first"]
        if self.key(end) not in self.shards:
            raise Broken
        self.alive.remove(self.shards[self.key(end)].pop(-side))
        if not self.shards[self.key(end)]:
            del self.shards[self.key(end)]
            self.meta["last" if side else "first"] += -1 if side else 1
            if self.meta["first"] > self.meta["last"]:
                self.meta = None

    def content(self):
        if not self.meta:
            return list(self.plain)
        return [x for i in range(self.meta["first"], self.meta["last"] + 1) for x in self.shards.get(self.key(i), [])] + self.plain

    def delete(self, chance):
        """Somebody deletes a key, or some elements of a shard."""
        torn = any(prefix in self.joined for prefix in self.strays())  # then only the caller could know the order
        keys = sorted(self.shards) + (["meta"] if self.meta and not torn else [])
        if not keys:
            return
        key = chance.choice(keys)
        if key == "meta":
            self.meta = None
            self.eras[0] = []
        elif chance.random() < 0.5 or len(self.shards[key]) < 2:
            self.alive -= set(self.shards.pop(key))
        else:
            self.alive.remove(self.shards[key].pop(chance.randrange(len(self.shards[key]))))

    # The steps of a repair.

    def knows(self, prefix, i):
        return self.meta and self.meta["prefix"] == prefix and self.meta["first"] <= i <= self.meta["last"]

    def strays(self):
        found = {}
        for prefix, i in sorted(self.shards):
            if not self.knows(prefix, i):
                found.setdefault(prefix, []).append(i)
        return found

    def attach(self, prefix, first, last, caps):
        if self.meta and "begun" in self.rules:
            return 1 if self.meta["prefix"] == prefix and "twice" in self.rules else 0
        if (prefix, first) not in self.shards or (prefix, last) not in self.shards:
            raise Broken
        self.meta = {"prefix": prefix, "first": first, "last": last, "caps": dict(caps)}
        return 1

    def join(self, prefix, i, side):
        if not self.meta:
            return -1
        if self.knows(prefix, i) and "twice" in self.rules:
            return 0
        end = self.meta["last" if side else "first"]
        if self.key(end) not in self.shards:
            raise Broken
        self.joined.add(prefix)
        taken = self.shards.pop((prefix, i), [])
        for x in taken if side else reversed(taken):
            self.add(side, x)
        return 0

    def misfits(self):
        if not self.meta:
            return []
        found, first, last = [], self.meta["first"], self.meta["last"]
        for i in range(first, last + 1):
            size = len(self.shards.get(self.key(i), []))
            if size == 0 or first < i < last and size != self.cap(i):
                found.append((i, size))
        return found

    def close(self, start, stop):
        """Moves the shards of the nearer side to where others are missing, a few at a time."""
        if not self.meta:
            return None
        meta = self.meta
        start, stop = max(start, meta["first"]), min(stop, meta["last"])
        if start > stop or "missing" in self.rules and any(self.key(i) in self.shards for i in range(start, stop + 1)):
            return None
        width, left, moved = stop - start + 1, start - meta["first"] <= meta["last"] - stop, 0
        i, step = (start - 1, -1) if left else (stop + 1, 1)
        while meta["first"] <= i <= meta["last"] and moved < MOVES and self.key(i) in self.shards:
            to = i - step * width
            self.shards[self.key(to)] = self.shards.pop(self.key(i))
            meta["caps"][to] = meta["caps"].pop(i, CAP)
            i, start, stop, moved = i + step, start + step, stop + step, moved + 1
        if "ends" not in self.rules:
            return None
        if start <= meta["first"] and stop >= meta["last"]:
            self.meta = None
            return None
        if start <= meta["first"]:
            meta["first"] = stop + 1
            return None
        if stop >= meta["last"]:
            meta["last"] = start - 1
            return None
        return start, stop

    def fit(self, i):
        if self.meta and self.meta["first"] < i < self.meta["last"] and self.key(i) in self.shards and "fits" in self.rules:
            self.meta["caps"][i] = len(self.shards[self.key(i)])


def repair(server):
    """Goes through the steps of a repair, and yields between them. It returns whether it has ended."""
    def close_gaps():
        for _ in range(60):
            found = server.misfits()
            yield
            if not found:
                return
            i, size = found[0]
            if size:
                server.fit(i)
                yield
                continue
            last = i
            for j, n in found:
                if n == 0 and j == last + 1:
                    last = j
            gap, former = (i, last), None
            while gap and gap != former:
                former, gap = gap, server.close(*gap)
                yield
        raise Violation("a repair finds no end")

    yield from close_gaps()
    for _ in range(60):
        found = server.strays()
        yield
        if not found:
            break
        prefix, side = min(found), server.side
        ids = found[prefix]
        sizes = {i: len(server.shards.get((prefix, i), [])) for i in ids}
        caps = {i: sizes[i] for i in ids}
        yield
        begun = server.meta
        yield
        done = not begun and server.attach(prefix, ids[0], ids[-1], caps)
        yield
        if not done:
            order = list(ids) if side == ("inner" in server.rules) else list(reversed(ids))
            while order:
                reply = server.join(prefix, order[0], side)
                yield
                if reply == 0:
                    order.pop(0)
                else:  # others have emptied the list
                    rest = sorted(i for i in order if (prefix, i) in server.shards)
                    if not rest or server.attach(prefix, rest[0], rest[-1], {i: len(server.shards[prefix, i]) for i in rest}):
                        break
                    yield
        yield from close_gaps()
    else:
        raise Violation("a repair finds no end of strays")
    return True


def check(server):
    content = server.content()
    if sorted(content) != sorted(server.alive):
        raise Violation(f"the list has {content} in place of {sorted(server.alive)}")
    at = {x: i for i, x in enumerate(content)}
    for prefix, era in server.eras.items():
        places = [at[x] for x in era if x in at]
        if places != sorted(places):
            raise Violation(f"generation {prefix}, which was {era}, is not in order in {content}")
    if server.misfits():
        raise Violation(f"shards do not fit: {server.misfits()}")


def walk(seed, rules):
    chance, number = random.Random(seed), 0
    server, running = Server(rules, chance.randrange(2)), []
    for _ in range(ACTIONS):
        act = chance.random()
        try:
            if act < 0.35:
                number += 1
                server.push(chance.randrange(2), number)
            elif act < 0.5:
                server.pop(chance.randrange(2))
            elif act < 0.54:
                server.delete(chance)
                running = []
            elif act < 0.58 and running:
                running.pop(chance.randrange(len(running)))  # it dies
            elif len(running) < 2 and chance.random() < 0.3:
                running.append(repair(server))
            elif running:
                one = chance.choice(running)
                try:
                    next(one)
                except StopIteration:
                    running.remove(one)
                    if not running:
                        check(server)
                except Broken:
                    running.remove(one)  # the caller begins it again
        except Broken:
            pass
    for _ in range(20):  # at last one goes through alone
        try:
            for _ in repair(server):
                pass
            server.open()
            check(server)
            return
        except Broken:
            pass
    raise Violation("no repair ends")


def find(seeds, rules):
    for seed in seeds:
        try:
            walk(seed, rules)
        except Violation as violation:
            return seed, violation
    return None


def main(words):
    if words[:1] == ["walk"] and len(words) == 3:
        caught = find(range(int(words[1]), int(words[2])), set(RULES))
        if caught:
            sys.exit(f"walk {caught[0]}: {caught[1]}")
        print(f"{words[1]} to {words[2]}: no violation")
    elif words[:1] == ["mutants"]:
        missed = []
        for rule in words[1:] or RULES:
            caught = find(range(20000), set(RULES) - {rule})
            print(f"{rule}: {'walk %d, %s' % caught if caught else 'NOT CAUGHT'}")
            missed += [] if caught else [rule]
        if missed:
            sys.exit(f"not caught: {missed}")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
