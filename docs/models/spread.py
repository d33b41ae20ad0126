#!/usr/bin/env python3
"""Executable model of the list over many slots (design.md, "Spread lists"): one deque whose shards live in different hash slots, so
that no script can touch two of them, nor a shard and the pointers. Every step below is one atomic script in one slot; any number of
clients interleave them, with pointers cached from any time in the past. Messages are lost or late, clients die or give up, parts and
pointers are taken back by failovers, and mended.

Checked at each effect: a push lands at the true end of the whole list; a pop takes from the true end; "empty" is said only
when the whole list is empty; nothing is done to a deleted list; positions are contiguous. Checked at the end: counts, sealed
interior shards, and that nobody sleeps while the list has elements or in a place where the next push will not be heard.

  spread.py walk FROM TO                    random walks, many sizes, stale clients, batches, deletes, blocked consumers
  spread.py all CAP CLIENTS OPS PARTS KINDS every interleaving of a small case; KINDS: comma-separated, see KINDS below
  spread.py mutants [RULE...]               each rule taken away must be caught
"""
import random
import sys

LEFT, RIGHT = 0, 1
LIMIT = 20_000
KINDS = ("rpush", "lpush", "lpop", "rpop", "blpop", "brpop", "del", "expire", "persist")
EXPIRED = 2  # why a list is being deleted
NEVER = (0, 0)  # an expiry is (time, stamp); of two with one stamp, that without a time counts
RULES = {
    "watermark": "a shard that was retired is not made again for an epoch from before",
    "create_other_at_watermark": "a shard that is made is closed on its other side",
    "create_needs_both_fresh": "a shard that both pointers name is made only if both epochs are newer than the watermark",
    "freeze": "pointers do not move while a delete is under way",
    "close_creates": "closing makes the shard if there is none, so that nobody else can",
    "generation": "keys of shards carry the generation, which a delete renews",
    "ring_on_close": "a close rings the armed",
    "close_what_was_left": "a side is closed if its pointer has left since it was opened",
    "pass_on": "a woken pop that does not end on the empty list rings on",
    "number": "a script whose number its part has recorded does nothing, and returns what was recorded",
    "lower": "so does one with a lower number",
    "negative": "closed, gone, stale, other gone and empty are recorded too",
    "new_number": "an attempt at a new place has a new number",
    "settle": "an operation given up is settled",
    "settle_there": "where it was last sent, not where the end is now",
    "settle_rings": "settling a woken pop that has not run rings on",
    "del_generation": "a delete names the generation, read after it began",
    "renew": "stale, though meta still says the same: the side gets an epoch above the shard's",
    "other_stale": "no empty list is told by a shard that has seen a newer epoch of the other pointer, which is elsewhere",
    "del_reads": "and not one cached from before it began",
    "expiry_told": "whoever sets an expiry tells both ends before it returns",
    "expiry_words": "pointers bring the expiry along",
    "expiry_generation": "what a part knows of the expiry is that of one generation",
    "stamp": "the expiry with the higher stamp counts",
    "lapse_checks": "only the expiry that meta has now ends the list",
    "close_checks": "an end is closed for an expiry only if it has not been found void meanwhile, or replaced",
    "void": "a list that is empty, and all in one shard, does not expire any more",
    "void_moves": "a pointer that leaves this shard tells meta",
    "void_wins": "what has been found void stays so, whoever comes with the same stamp",
    "drained_goes": "a shard of a list that expires is retired with its last element, if there are more inward",
    "drained_looks": "whoever took that looks inward before it returns",
    "repair_encloses": "a repair lets the pointers enclose what it has found outside, wherever they are by then",
    "repair_above": "its epochs are newer than all that shards and parts have seen",
    "repair_fills": "it makes a shard where one is missing, which is closed",
    "repair_moves": "it lets the positions of a shard begin where those of the one before end",
}


class Violation(Exception):
    pass


class World:
    """shards: (generation, id) -> [n, lo, open left, open right, epoch left, epoch right, armed]; marks, bells: by part."""

    def __init__(self, cap, parts, clients, without=None):
        self.cap, self.parts, self.rules = cap, parts, set(RULES) - {without}
        self.shards, self.marks, self.bells = {}, [0] * parts, [0] * parts
        # generation, first, last, epochs left and right, positions left and right, next epoch, deleting, expiry
        self.meta = (0, 0, 0, 1, 1, 0, 0, 2, False, NEVER)
        # What each part knows of the expiry, of which generation; the time, and how far the clocks of parts are ahead.
        self.expiry, self.clock, self.skew = [(0, *NEVER)] * parts, 0, [0] * parts
        self.known = NEVER                                          # in a script, what it knows of the expiry
        self.goal, self.wanted = ["op"] * len(clients), [None] * len(clients)  # what a client does after a detour; what it has set
        # To check expiries: that by which the list is being deleted, one that all know of, the highest that is void, or may be.
        self.lapsed, self.forced, self.void, self.may_be_void, self.saw = 0, None, 0, 0, {}
        self.first_stamp = {}
        self.clients = [(ops, "idle", None, 0, self.meta) for ops in clients]
        self.dead, self.pushed, self.popped, self.deleted = set(), 0, 0, 0
        self.sound = True
        self.net = None                                             # a random source: messages get lost, come late; clients die
        self.records, self.seq, self.out, self.op = {}, [0] * len(clients), [None] * len(clients), [None] * len(clients)
        self.began = [0] * len(clients)
        self.bag, self.gone, self.done, self.ended, self.deleters, self.ops = [], set(), {}, set(), set(), 0

    def clone(self):
        w = World.__new__(World)
        w.cap, w.parts, w.rules = self.cap, self.parts, self.rules
        w.shards = {k: list(s) for k, s in self.shards.items()}
        w.marks, w.bells, w.meta, w.clients = list(self.marks), list(self.bells), self.meta, list(self.clients)
        w.dead, w.pushed, w.popped, w.deleted = set(self.dead), self.pushed, self.popped, self.deleted
        w.sound, w.net = True, None
        w.records, w.seq, w.out, w.op = {}, list(self.seq), list(self.out), list(self.op)
        w.began = list(self.began)
        w.skew = self.skew
        w.expiry, w.clock, w.goal, w.wanted = list(self.expiry), self.clock, list(self.goal), list(self.wanted)
        w.lapsed, w.forced, w.void, w.may_be_void = self.lapsed, self.forced, self.void, self.may_be_void
        w.saw, w.first_stamp = {c: set(v) for c, v in self.saw.items()}, dict(self.first_stamp)
        w.bag, w.gone, w.done, w.ended, w.deleters, w.ops = [], set(), dict(self.done), set(self.ended), set(self.deleters), self.ops
        return w

    def key(self):
        return (tuple(sorted((k, tuple(s)) for k, s in self.shards.items())), tuple(self.marks), tuple(self.bells), self.meta,
                tuple(self.clients), self.pushed - self.popped - self.deleted, tuple(self.expiry))

    def part(self, i):
        return i % self.parts

    # --- scripts -------------------------------------------------------------------------------------------------------

    def open(self, cache, side, closing=False):
        """The prelude of every script on an end shard. Returns the shard, or why there is none."""
        gen, ptr, epochs, pos = cache[0], cache[1:3], cache[3:5], cache[5:7]
        i, epoch, other = ptr[side], epochs[side], epochs[1 - side] if ptr[0] == ptr[1] else None
        elsewhere = epochs[1 - side] if other is None else 0
        mark, key = self.marks[self.part(i)], (gen if "generation" in self.rules else 0, i)
        s = self.shards.get(key)
        known = self.learn(cache, i)
        if s is None:
            if "watermark" in self.rules and epoch <= mark:
                return None, key, "GONE"
            if closing:
                other = None
                if "close_creates" not in self.rules:
                    return None, key, "GONE"
            elif "create_needs_both_fresh" in self.rules and other is not None and other <= mark:
                return None, key, "OTHER_GONE"
            elif other is None and self.is_over(known, i) and not closing:
                return None, key, "EXPIRED"
            floor = mark if "create_other_at_watermark" in self.rules else 0
            opened = "create_other_at_watermark" not in self.rules
            s = self.shards[key] = [0, pos[side], opened, opened, floor, floor, False, 1 - side, pos[side]]
        if s[4 + side] < epoch:
            self.reopen(s, side)
            s[4 + side], s[2 + side] = epoch, True
        if other is not None and s[5 - side] < other:
            self.reopen(s, 1 - side)
            s[5 - side], s[3 - side] = other, True
        if s[3 - side] and s[5 - side] < elsewhere:
            if self.sound:
                raise Violation("a side is open though its pointer has left")
            if "close_what_was_left" in self.rules:
                self.shut(s, 1 - side)
                s[3 - side] = False
                if s[6]:
                    s[6] = False
                    self.ring(i)
        if s[2] and s[3] and not s[0] and "void" in self.rules:
            self.known = 0, known[1]
            if self.expiry[self.part(i)][0] == gen:
                self.expiry[self.part(i)] = gen, *self.known
        elif self.is_over(known, i) and not closing:
            return None, key, "EXPIRED"
        return s, key, "OK"

    def is_over(self, known, i):
        return known[0] and known[0] <= self.clock + self.skew[self.part(i)]

    def learn(self, cache, i):
        """What the part of a shard and the caller know of the expiry. That of a later generation stays as it is."""
        gen, *known = self.expiry[self.part(i)]
        if gen > cache[0] and "expiry_generation" in self.rules:
            self.known = cache[9]
            return self.known
        fresh = gen < cache[0] and "expiry_generation" in self.rules
        self.known = self.merge(NEVER if fresh else tuple(known), cache[9])
        self.expiry[self.part(i)] = cache[0], *self.known
        return self.known

    def merge(self, known, told):
        if "expiry_words" not in self.rules:
            return known
        if "stamp" not in self.rules:
            return told if told != NEVER else known
        if told[1] == known[1]:
            return min(known, told) if "void_wins" in self.rules else told
        return max(known, told, key=lambda e: e[1])

    def is_void(self):
        """The stamp of the expiry, if it is known to be void."""
        return 0 if self.known[0] else self.known[1]

    def border(self, s, side):
        return s[8] + (0 if s[7] == side else s[0] if side == RIGHT else -s[0])

    def shut(self, s, side):
        if s[2 + side]:
            s[8], s[7] = self.border(s, side), side

    def reopen(self, s, side):
        if not s[2 + side] and s[7] == side:
            s[8], s[7] = self.border(s, 1 - side), 1 - side

    def ring(self, i):
        self.bells[self.part(i)] = 1

    def at_the_end(self, key, side):
        if key[0] in self.dead:
            raise Violation("acted on a deleted list")
        if not self.sound:
            return
        for (g, j), t in self.shards.items():
            if g == key[0] and t[0] and (j > key[1] if side == RIGHT else j < key[1]):
                raise Violation("acted inside the list")

    def push(self, op, cache, side, count):
        s, key, r = self.open(cache, side)
        if s is None:
            return self.refused(r, key)
        mine = s[4 + side] == cache[3 + side]
        if s[2 + side] and s[0] < self.cap:
            self.at_the_end(key, side)
            s[0] += count                                           # whole, even beyond the capacity: a push is atomic
            s[1] -= count if side == LEFT else 0
            self.pushed += count
            self.effect(op)
            if s[6]:
                s[6] = False
                self.ring(key[1])
            return "OK", None
        self.shut(s, side)
        s[2 + side] = False                                         # full: seal
        return ("CLOSED", (self.border(s, side), self.is_void())) if mine else ("STALE", s[4 + side])

    def refused(self, r, key):
        return r, self.known[1] if r == "EXPIRED" else None

    def pop(self, op, cache, side, waits, woken, count):
        s, key, r = self.open(cache, side)
        part, pos = self.part(key[1]), None
        if r == "EXPIRED":
            pos = self.known[1]
        if s is not None:
            timed = self.known[0] and "drained_goes" in self.rules
            pos = self.border(s, side), self.is_void()
            mine = s[4 + side] == cache[3 + side]
            if not s[2 + side]:
                r = "CLOSED" if mine else "STALE"
            elif s[0]:
                self.at_the_end(key, side)
                took = min(count, s[0])                             # it stops at the border
                s[0] -= took
                s[1] += took if side == LEFT else 0
                self.popped += took
                if count:
                    self.effect(op)
                drained = not s[0] and not s[3 - side]
                if drained and (took < count or timed):             # and more beyond: retire it at once
                    self.retire(key, s, part)
                if s[0] == 0 and s[3 - side] and (woken or waits and took < count):
                    s[6], self.bells[part] = True, 0                # it has emptied the list: arm
                elif woken and "pass_on" in self.rules:
                    self.ring(key[1])
                return ("DRAINED" if drained and timed and "drained_looks" in self.rules else "OK"), None
            elif s[3 - side] and cache[1] != cache[2] and s[5 - side] > cache[4 - side] and "other_stale" in self.rules:
                r, mine = "OTHER_STALE", None
            elif s[3 - side]:
                if self.sound and any(t[0] for (g, j), t in self.shards.items() if g not in self.dead):
                    raise Violation("said empty, was not")
                if waits or woken:
                    s[6], self.bells[part] = True, 0
                return "EMPTY", None
            else:                                                   # drained, and more beyond: retire it
                self.retire(key, s, part)
                r = "GONE" if mine else "STALE"
            pos = pos if mine else s[4 + side] if mine is False else s[5 - side]
        if woken and "pass_on" in self.rules:
            self.ring(key[1])
        return r, pos

    def retire(self, key, s, part):
        if s[6] and self.sound:
            raise Violation("an armed shard is retired")
        del self.shards[key]
        self.marks[part] = max(self.marks[part], s[4], s[5])

    def close(self, cache, side):
        """What the part knows of the expiry, if that says not to."""
        before = self.expiry[self.part(cache[1 + side])]
        known = self.learn(cache, cache[1 + side])
        s = self.shards.get((cache[0], cache[1 + side]))
        empty = s and s[2] and s[3] and not s[0] and "void" in self.rules
        if cache[8] == EXPIRED and (empty or not known[0] or known[1] > cache[9][1]) and "close_checks" in self.rules:
            self.expiry[self.part(cache[1 + side])] = before
            return 0 if empty else known[0], known[1]
        s, key, r = self.open(cache, side, closing=True)
        if s is None:
            return
        if s[4 + side] == cache[3 + side]:
            self.shut(s, side)
            s[2 + side] = False
            if s[6] and "ring_on_close" in self.rules:
                s[6] = False
                self.ring(key[1])

    def move(self, side, seen, how, pos):
        """On the pointers: compare and set. False if a delete is under way."""
        g, first, last, el, er, pl, pr, new, deleting, expiry = self.meta
        if deleting and "freeze" in self.rules:
            return False
        ptr, ep, ps = [first, last], [el, er], [pl, pr]
        if ep[side] != seen:
            return True
        out = -1 if side == LEFT else 1
        if how == "out":
            ptr[side], (ps[side], void) = ptr[side] + out, pos
            if void and expiry[1] <= void and "void_moves" in self.rules:
                expiry = 0, expiry[1]
        elif how == "in" and first != last:
            ptr[side] -= out
            if ptr[0] == ptr[1]:
                ps[side] = ps[1 - side]
        elif how == "in":                                           # would cross: the list is empty here, renew both
            ep[1 - side], ps[side] = new, ps[1 - side]
        elif how == "renew":
            new = max(new, pos + 1)
        ep[side] = new
        self.meta = (g, *ptr, *ep, *ps, new + 1, deleting, expiry)
        return True

    def set_expiry(self, gen, seen, time):
        """On the pointers: compare and set. False if a delete is under way."""
        if self.meta[8]:
            return False
        if self.meta[0] == gen and self.meta[9][1] == seen:
            self.meta = *self.meta[:7], self.meta[7] + 1, False, (time, self.meta[7])
            self.forced = None
        return True

    def lapse(self, gen, stamp):
        """On the pointers: the list has expired, says a shard. It is deleted, if that is the expiry that it has now."""
        time, now = self.meta[9]
        if gen == self.meta[0] and not self.meta[8] and (now < stamp or now == stamp and time or "lapse_checks" not in self.rules):
            self.meta = *self.meta[:8], EXPIRED, (time or 1, stamp)
            self.lapsed = stamp
        return True

    def go_on(self, gen, expiry):
        """On the pointers: the list has not expired after all, says a shard."""
        if gen == self.meta[0] and self.meta[8] == EXPIRED and expiry[1] >= self.meta[9][1]:
            self.meta = *self.meta[:8], False, expiry
            self.lapsed = 0
        return True

    def commit(self, cache):
        """On the pointers: the end of a delete, once both ends are closed."""
        if self.meta[:8] != cache[:8] or not self.meta[8] or self.meta[8] == EXPIRED != cache[8]:
            return
        g, new = self.meta[0], self.meta[7]
        lost = sum(s[0] for (gen, i), s in self.shards.items() if gen == g)
        self.deleted += lost
        if self.sound and lost and self.lapsed and not self.deleters and self.lapsed <= self.void:
            raise Violation("expired, though it has been empty, or does not expire any more")
        self.lapsed, self.forced = 0, None
        self.dead.add(g)
        for op in self.deleters:
            self.effect(op)
        self.deleters = set()
        i = self.meta[2]
        self.meta = (g + 1, i, i, new, new, 0, 0, new + 1, False, NEVER)

    def sweep(self):
        for key in sorted(self.shards):
            if key[0] in self.dead:
                s = self.shards.pop(key)
                p = self.part(key[1])
                self.marks[p] = max(self.marks[p], s[4], s[5])
                if s[6]:
                    self.ring(key[1])
                return

    # --- repair --------------------------------------------------------------------------------------------------------

    def repairing(self):
        """The steps of a repair: it looks for shards, lets the pointers enclose them, and mends what is between them."""
        before = self.meta
        yield
        found, seen = {}, 0
        for p in range(self.parts):                                 # one part after the other
            found |= {i: max(s[4:6]) for (g, i), s in self.shards.items() if g == before[0] and self.part(i) == p}
            seen = max(seen, self.marks[p])
            yield
        g, first, last, _, _, pl, pr, new, deleting, expiry = self.meta
        if not found or g != before[0] or deleting:
            return
        outside = [i for i in found if not before[1] <= i <= before[2]]
        if "repair_encloses" in self.rules:                         # also where others have moved them meanwhile
            first, last = min([first, *outside]), max([last, *outside])
        else:
            first, last = min([before[1], *outside]), max([before[2], *outside])
        new = max(new, max(found.values()) + 1, seen + 1) if "repair_above" in self.rules else new
        self.meta = word = (g, first, last, new, new, pl, pr, new + 1, False, expiry)
        missing, begins = [], None
        for i in range(first, last + 1):
            yield
            borders = self.mend(word, i, begins)
            if borders:
                for j in reversed(missing):                         # those before the first that is there
                    yield
                    self.mend(word, j, borders[0])
                missing, begins = [], borders[1]
            elif begins is None:
                missing.append(i)

    def mend(self, word, i, begins):
        """The step on one shard. It returns its borders, if there is one."""
        s = self.shards.get((word[0], i))
        if s is None:
            if begins is None or word[3] <= self.marks[self.part(i)] or i in word[1:3] or "repair_fills" not in self.rules:
                return None
            s = self.shards[word[0], i] = [0, begins, False, False, 0, 0, False, LEFT, begins]
        for side in (LEFT, RIGHT):
            if word[1 + side] != i and s[2 + side]:
                self.shut(s, side)
                s[2 + side] = False
                if s[6]:
                    s[6] = False
                    self.ring(i)
        if begins is not None and not s[2 + LEFT] and "repair_moves" in self.rules:
            s[8] += begins - self.border(s, LEFT)
        return self.border(s, LEFT), self.border(s, RIGHT)

    # --- expiry --------------------------------------------------------------------------------------------------------

    def empty(self):
        return self.pushed == self.popped + self.deleted

    def observe(self):
        """Notes, after each script, whether the list is empty. It surely is if no pop that has taken something has yet to return. What an
        expire sets that has yet to return may count as set later."""
        for c, op in enumerate(self.op):
            if op is not None and c in self.saw:
                self.saw[c].add(self.empty())
        if self.empty():
            self.may_be_void, self.forced = self.meta[7] - 1, None
            if not any(op is not None and self.done.get(op) for op in self.op):
                open_ones = [self.first_stamp[c] for c, op in enumerate(self.op) if op is not None and c in self.first_stamp]
                self.void = max(self.void, min([self.meta[7], *open_ones]) - 1)

    def expiry_set(self, c, existed, kind):
        """The caller of an expire or a persist hears whether there was a list."""
        wanted = self.wanted[c]
        self.ended.add(self.op[c])
        self.op[c], self.wanted[c] = None, None
        if not self.sound:
            return
        if existed not in (None, False in self.saw[c]) and existed != (True not in self.saw[c]):
            raise Violation("told of a list that there was not, or the reverse")
        if existed and kind == "persist":
            self.void = max(self.void, wanted[1])
        elif existed:
            self.void = max(self.void, wanted[1] - 1)
            if self.meta[9] == wanted and wanted[1] > self.may_be_void:
                self.forced = wanted

    # --- exactly once --------------------------------------------------------------------------------------------------

    def effect(self, op):
        if self.sound and self.forced and self.forced[0] <= self.clock + min(self.skew):
            raise Violation("done to a list that has expired")
        self.done[op] = self.done.get(op, 0) + 1
        if self.sound and self.done[op] > 1:
            raise Violation("done twice")
        if self.sound and op in self.ended:
            raise Violation("done after the operation ended")

    def end(self, c, effects):
        """The caller hears the outcome. Nothing of the operation may happen from now on."""
        op, self.op[c] = self.op[c], None
        self.ended.add(op)
        if self.sound and self.done.get(op, 0) != effects:
            raise Violation(f"told {effects}, done {self.done.get(op, 0)}")

    def run(self, m):
        reply = self.script(m)
        self.observe()
        return reply

    def script(self, m):
        """One script. It may run again at any time, with the same arguments."""
        name, a = m[0], m[1:]
        if name in ("push", "pop", "settle"):
            session, n, part, rest = a[0], a[1], a[2], a[3:]
            known = self.records.get((part, session), (-1, None)) if "number" in self.rules and self.net else (-1, None)
            if n == known[0]:
                return known[1]
            if n < known[0] and "lower" in self.rules:
                return "LATE", None
            if name == "settle":
                if rest[0] and "settle_rings" in self.rules:
                    self.bells[part] = 1
                result = "NOTHING", None
            else:
                result = (self.push if name == "push" else self.pop)(*rest)
            if self.net and (result[0] in ("OK", "NOTHING") or "negative" in self.rules):
                self.records[part, session] = n, result
            return result
        if name in ("move", "set_expiry", "lapse", "go_on"):
            return getattr(self, name)(*a), self.meta
        if name == "del":
            op, gen = a
            if gen == self.meta[0] or "del_generation" not in self.rules:
                if self.sound and op in self.ended:
                    raise Violation("a delete begins after its operation ended")
                self.meta = *self.meta[:8], True, self.meta[9]      # whoever was first: both deletes end together
                self.deleters.add(op)
            return self.meta
        return self.close(*a) if name == "close" else self.commit(*a)

    def late(self, r):
        if self.bag:
            self.run(r.choice(self.bag[-6:] if r.random() < .5 else self.bag))

    # --- clients -------------------------------------------------------------------------------------------------------

    def can_step(self, c):
        ops, place = self.clients[c][:2]
        if c in self.gone:
            return False
        if isinstance(place, tuple) and place[0] == "blocked":
            return self.bells[place[1]] > 0
        return bool(ops) or place != "idle"

    def die(self, c):
        """For ever, wherever it is; but one that has taken a dummy from the bell is healed by time slices only."""
        if self.clients[c][1] != "woken" and not (self.out[c] and self.out[c][0] == "settle"):
            self.gone.add(c)

    def give_up(self, c):
        ops, place, kind, count, cache = self.clients[c]
        m = self.out[c]
        if place in ("op", "woken") and kind != "del" and m and m[0] in ("push", "pop"):
            part = m[3] if "settle_there" in self.rules else self.part(self.meta[1 + (m[6] if m[0] == "push" else m[6])])
            if "settle" in self.rules:
                self.out[c] = ("settle", m[1], m[2], part, place == "woken")
                self.bag.append(self.out[c])
            else:
                self.out[c] = None
                self.ended.add(self.op[c])
                self.clients[c] = (ops, "idle", None, 0, cache)

    def step(self, c, choose):
        """One step of a client: (operations left, place, kind, count, cached pointers). What it sends may be lost, or the answer."""
        ops, place, kind, count, cache = self.clients[c]
        goal = self.goal[c]
        side = LEFT if kind in ("lpush", "lpop", "blpop") or goal == "tell left" else RIGHT

        def go(place, cache=cache):
            self.clients[c] = (ops, place, kind, count, cache)

        if place == "idle":
            kind, count = choose()
            self.ops += 1
            self.op[c], self.began[c], self.saw[c] = self.ops, self.meta[0], {self.empty()}
            self.seq[c] += 1
            self.goal[c] = "read" if kind in ("expire", "persist") else "op"
            self.first_stamp.pop(c, None)
            if kind == "expire":
                self.first_stamp[c] = self.meta[7]
            self.clients[c] = (ops - 1, self.goal[c], kind, count, self.meta if kind == "del" and "del_reads" in self.rules else cache)
            return
        elif place == "refresh":
            return go(goal, self.meta)
        elif place == "read":                                       # an expiry is set on what meta says now
            return go("set", self.meta)
        elif place[0] == "stale":                                   # pointers that no script can have seen: meta was taken back
            if self.meta[:5] != cache[:5] or "renew" not in self.rules:
                return go(goal, self.meta)
            if self.sound:
                raise Violation("renewed without a failover")
            return go(("move", place[1], cache[3 + place[1]], "renew", place[2]))
        elif place[:4] == "tell" and cache[0] != self.wanted[c][2]:    # it has been deleted since, or expired
            self.wanted[c] = self.wanted[c][:2]
            self.expiry_set(c, None, kind)
            return go("idle")
        elif place == "sweep":
            self.sweep()
            return go("idle")
        elif place[0] in ("pending", "blocked"):
            if self.bells[place[1]]:
                self.bells[place[1]] = 0
                go("woken")
            else:
                go(("blocked", place[1]))
            return
        m = self.out[c]
        if m is None:
            if place == "op" and kind == "del":
                m = ("del", self.op[c], cache[0])
            elif place == "set":
                m = ("set_expiry", cache[0], cache[9][1], self.clock + count if kind == "expire" else 0)
            elif place[0] in ("lapse", "go on"):
                m = (place[0].replace(" ", "_"), cache[0], place[1])
            elif place in ("tell left", "tell right", "look"):
                self.seq[c] += 1
                m = ("pop", c, self.seq[c], self.part(cache[1 + side]), None, cache, side, False, False, 0)
            elif place in ("op", "woken"):
                if "new_number" in self.rules:
                    self.seq[c] += 1
                m = ("push" if kind.endswith("push") else "pop", c, self.seq[c], self.part(cache[1 + side]), self.op[c], cache, side)
                m += (count,) if kind.endswith("push") else (kind[0] == "b", place == "woken", count)
            elif place[0] == "move":
                m = place
            elif place[1] < 2:
                m = ("close", cache, place[1])
            else:
                m = ("commit", cache)
            if self.net:
                self.bag.append(m)
        self.out[c] = m
        if self.net and self.net.random() < self.loss:              # the request is lost, or will come late
            return
        reply = self.run(m)
        if self.net and self.net.random() < self.loss:              # the reply is lost
            return
        self.out[c] = None
        if m[0] in ("push", "pop", "settle"):
            r, pos = reply
            i = cache[1 + side]
            if r == "LATE":
                raise Violation("a live attempt is taken for late")
            if r == "DRAINED":
                self.goal[c] = "look"
                go(("move", side, cache[3 + side], "in", None))
            elif goal == "look" and r in ("OK", "EMPTY", "EXPIRED"):
                self.end(c, 1)
                go("idle")
            elif place[:4] == "tell" and r in ("OK", "EMPTY"):
                if r == "OK" and goal == "tell left":
                    self.goal[c] = "tell right"
                    go("tell right")
                else:
                    self.wanted[c] = self.wanted[c][:2]
                    self.expiry_set(c, r == "OK", kind)
                    go("idle")
            elif r == "OK" or m[0] == "settle":
                self.end(c, r == "OK")
                go("idle")
            elif r == "EXPIRED":
                go(("lapse", pos))
            elif r == "EMPTY":
                if kind[0] != "b":
                    self.end(c, 0)
                go(("pending", self.part(i)) if kind[0] == "b" else "idle")
            elif r in ("STALE", "OTHER_STALE"):
                go(("stale", side if r == "STALE" else 1 - side, pos))
            elif r == "OTHER_GONE":
                go(("move", 1 - side, cache[4 - side], "in", None))
            elif r == "GONE":
                go(("move", side, cache[3 + side], "in", None))
            else:
                go(("move", side, cache[3 + side], "out", pos))
        elif m[0] == "set_expiry":
            self.wanted[c] = reply[1][9] + (reply[1][0],)
            if not reply[0]:
                go(("help", 0), reply[1])
            elif reply[1][0] != m[1] or reply[1][9][0] != m[3]:
                go("read", reply[1])                                # another has been faster, or it was done before
            elif "expiry_told" in self.rules:
                self.goal[c] = "tell left"
                go("tell left", reply[1])
            else:
                self.wanted[c] = self.wanted[c][:2]
                self.expiry_set(c, True, kind)
                go("idle", reply[1])
        elif m[0] in ("move", "lapse", "go_on"):
            go(goal if reply[0] and not reply[1][8] else ("help", 0), reply[1])
        elif m[0] == "del":
            if reply[0] != cache[0] and "del_generation" in self.rules:
                if self.sound and reply[0] <= self.began[c]:
                    raise Violation("told deleted, is not")
                self.ended.add(self.op[c])                          # another delete has ended since this one began
                go("idle", reply)
            else:
                go(("help", 0), reply)
        elif m[0] == "close":
            go(("go on", reply) if reply else ("help", place[1] + 1))
        elif kind == "del":
            if self.sound and self.meta[0] <= self.began[c]:
                raise Violation("told deleted, is not")
            self.ended.add(self.op[c])
            go("sweep")
        else:
            go("refresh")

    def snapshot(self, r):
        p = r.randrange(self.parts)
        return p, self.expiry[p], ({k: list(s) for k, s in self.shards.items() if self.part(k[1]) == p}, self.marks[p], self.bells[p],
                   {k: v for k, v in self.records.items() if k[0] == p})

    def roll_back(self, snapshot):
        p, self.expiry[p], (shards, self.marks[p], self.bells[p], records) = snapshot
        self.records = {k: v for k, v in self.records.items() if k[0] != p} | records
        self.sound = False
        self.shards = {k: s for k, s in self.shards.items() if self.part(k[1]) != p} | {k: list(s) for k, s in shards.items()}

    def check_drained(self):
        """After a failover of a part, whatever is between the pointers can still be popped, and the list goes on."""
        self.clients, self.net, self.gone, self.out = [(1, "idle", None, 0, self.meta)], None, set(), [None]
        self.goal = ["op"]
        for _ in range(10_000):
            if not self.clients[0][0] and self.clients[0][1] == "idle":
                if self.popped == before:
                    break
            if self.clients[0][1] == "idle":
                before = self.popped
                self.clients[0] = (1, "idle", None, 0, self.clients[0][4])
            self.step(0, lambda: ("lpop", 1))
        else:
            raise Violation("cannot be drained")
        g, first, last = self.meta[:3]
        if any(s[0] for (gen, i), s in self.shards.items() if gen == g and first <= i <= last):
            raise Violation("elements between the pointers cannot be reached")

    def check_repaired(self, at_once):
        """After a repair the list has all elements; after one that nobody disturbed, they have one position each and can be drained."""
        if at_once and any(s[0] and g == self.meta[0] and not self.meta[1] <= i <= self.meta[2] for (g, i), s in self.shards.items()):
            raise Violation("a repair has left elements outside the pointers")
        for _ in self.repairing():
            pass
        g, first, last = self.meta[:3]
        chain = [self.shards.get((g, i)) for i in range(first, last + 1)] if any(gen == g for gen, _ in self.shards) else []
        if None in chain[1:-1]:
            raise Violation("a shard is missing")
        for a, b in zip(chain, chain[1:]):
            if a and b and self.border(a, RIGHT) != self.border(b, LEFT):
                raise Violation("positions are not contiguous")
        self.check_drained()
        if any(s[0] for (gen, i), s in self.shards.items() if gen == g):
            raise Violation("elements are outside the pointers")

    def check_end(self):
        g, first, last = self.meta[:3]
        live = sorted(i for (gen, i), s in self.shards.items() if gen == g and s[0])
        if sum(self.shards[g, i][0] for i in live) != self.pushed - self.popped - self.deleted:
            raise Violation("count")
        if live and (live[0] < first or live[-1] > last):
            raise Violation("pointers do not enclose the list")
        for a, b in zip(live, live[1:]):
            if b != a + 1 or self.border(self.shards[g, a], RIGHT) != self.border(self.shards[g, b], LEFT):
                raise Violation("positions are not contiguous")
        if any(self.shards[g, i][0] < self.cap for i in live[1:-1]):
            raise Violation("an interior shard is not full")
        sleepers = {s[1][1] for c, s in enumerate(self.clients)
                    if c not in self.gone and isinstance(s[1], tuple) and s[1][0] == "blocked"}
        if sleepers and live:
            raise Violation("somebody sleeps while the list has elements")
        if sleepers:
            s = self.shards.get((g, first))
            if first != last or s is None or not s[6] or sleepers != {self.part(first)}:
                raise Violation("somebody sleeps where the next push is not heard")


def walk(seed, without=None, fault=None, net=True):
    """A random run. fault: failovers take parts back to what they were a while ago ("part"), or meta a little, once ("meta"), or any
    of them, and meta far ("deep"), after which a repair mends the list while others use it."""
    r = random.Random(seed)
    w = World(r.choice([1, 1, 2, 3]), r.choice([1, 2, 3, 5]), [r.choice([5, 20, 60]) for _ in range(r.choice([2, 3, 4, 6]))], without)
    kinds = r.choice([["rpush", "lpop"], ["rpush", "lpop", "rpop", "lpush"], ["lpush", "lpop", "rpop"], ["rpush", "blpop"],
                      ["rpush", "rpush", "blpop", "del"], ["rpush", "rpush", "lpop", "expire"], ["rpush", "lpush", "lpop", "rpop", "expire"],
                      ["rpush", "rpush", "rpush", "blpop", "lpop", "rpop", "expire", "persist"], ["rpush", "lpush", "blpop", "brpop", "lpop", "rpop"], list(KINDS)])
    if fault:
        kinds = [k for k in kinds if k not in ("del", "expire", "persist") and k[0] != "b"] or ["rpush", "lpop"]
    w.skew = [r.choice([0, 0, 1, 2]) for _ in w.skew]
    metas, repair, fresh = [], None, False
    stale, past, strikes = r.choice([0, 0, .5, .9]), [], {None: 0, "meta": 1}.get(fault, 3)
    w.net, w.loss = (r if net else None), r.choice([0, .1, .3])
    late, death, give_up = r.choice([0, .05, .3]), r.choice([0, 0, .005, .02]), r.choice([0, .05, .3])
    for _ in range(100_000):
        live = [c for c in range(len(w.clients)) if w.can_step(c)]
        if not live and net and late:                               # the last that can come late
            for m in r.sample(w.bag, len(w.bag)):
                w.run(m)
            live = [c for c in range(len(w.clients)) if w.can_step(c)]
        if not live:
            for _ in repair or []:
                pass
            return w.check_repaired(fresh) if fault == "deep" else w.check_drained() if fault else w.check_end()
        if fault in ("part", "deep") and r.random() < .1:
            past.append(w.snapshot(r))
        if fault in ("meta", "deep") and r.random() < .1:
            metas.append(w.meta)
        if fault == "deep" and strikes and metas and r.random() < .01:
            w.sound, w.meta, strikes = False, r.choice(metas), strikes - 1
            repair, fresh = w.repairing(), r.random() < .5
            if fresh:                                               # nobody has pointers that were taken back
                w.bag, w.out = [], [None] * len(w.out)
                w.clients = [(c[0], "idle", None, 0, w.meta) for c in w.clients]
        if repair and r.random() < .3 and next(repair, "over") == "over":
            repair = None
        if fault == "meta" and strikes and metas and r.random() < .03:
            w.sound, w.meta = False, r.choice(metas[-4:])
            strikes -= 1
            continue
        if fault in ("part", "deep") and strikes and past and r.random() < .03:
            w.roll_back(r.choice(past[-4:]))
            strikes, fresh = strikes - 1, False
        if r.random() < .05:
            w.clock += 1
        if net:
            if r.random() < late:
                w.late(r)
            if r.random() < death:
                w.die(r.randrange(len(w.clients)))
            if r.random() < give_up:
                w.give_up(r.choice(live))
            live = [c for c in live if w.can_step(c)]
            if not live:
                continue
        w.step(live[0] if r.random() < stale else r.choice(live), lambda: (r.choice(kinds), r.choice([1, 1, 1, 2, 4])))
    raise Violation("no progress")


def every(cap, clients, ops, parts, kinds, limit=5_000_000):
    start = World(cap, parts, [ops] * clients)
    seen, todo, ends = {start.key()}, [start], 0
    while todo:
        w = todo.pop()
        steppers = [c for c in range(clients) if w.can_step(c)]
        if not steppers:
            ends += 1
            w.check_end()
        for c in steppers:
            choices = [(k, n) for k in kinds for n in ((1, 2) if k.endswith("push") else (1,))] if w.clients[c][1] == "idle" else [None]
            for choice in choices:
                v = w.clone()
                v.step(c, lambda: choice)
                if v.meta[7] > 6 * clients * ops + 6:
                    continue
                key = v.key()
                if key not in seen:
                    seen.add(key)
                    todo.append(v)
        if len(seen) > limit:
            sys.exit(f"more than {limit} states")
    print(f"{clients} clients x {ops} of {','.join(kinds)}, capacity {cap}, {parts} parts: {len(seen)} states, {ends} ends, no violation")


if __name__ == "__main__":
    a = sys.argv[1:] or ["walk", "0", "2000"]
    if a[0] == "walk":
        for seed in range(int(a[1]), int(a[2])):
            for fault in (None, "part", "meta", "deep"):
                try:
                    walk(seed, None, fault)
                except Violation as v:
                    sys.exit(f"walk {seed}, fault {fault}: {v}")
        print(f"walks {a[1]} to {a[2]}, without faults, with parts, meta and both rolled back: no violation")
    elif a[0] == "all":
        every(*map(int, a[1:5]), a[5].split(","))
    else:
        missed = 0
        for rule in (a[1:] or sorted(RULES)):
            for seed in range(LIMIT):
                try:
                    for fault in (None, "part", "meta", "deep"):
                        walk(seed, rule, fault)
                except Violation as v:
                    print(f"without {rule} ({RULES[rule]}): {v} (walk {seed}, fault {fault})")
                    break
            else:
                missed += 1
                print(f"without {rule}: NOT CAUGHT")
        sys.exit(missed)
