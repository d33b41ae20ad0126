#!/usr/bin/env python3
"""Executable model of how a sharded list and the plain list of its name are one list (design.md, "Plain lists").

The state of a name: its shards from left to right (those between the ends are full, those at the ends may be long); the plain key,
which is the list itself while it is short, and to which old processes push newcomers once it is long, and its TTL; in meta the end that
newcomers join, armed, expires, the capacity and the mode. Each script is atomic. Old clients act on the plain key only. Each new one has
a capacity of its own for the lists that outgrow their key by its pushes. Clients interleave, die between the steps of Adopt and Restore,
lose replies, and copies of their scripts come late. Ends are 0 (left) and 1 (right). Checked at each script: the list changes as the
command says (outgrowing its key, the way back, taking in, Adopt, Restore: not at all); a push leaves no plain list that is longer than a
shard, and a pop no single shard that is at most half full; in a queue nobody is overtaken; shards between the ends are full, none is
empty; steps are bounded; newcomers wait for one operation; waiters are rung; after Restore the plain key is all there is; a full server
refuses pushes only. At the end: nothing lost, nothing twice, nothing outlives deletion or expiry, nobody waits for ever.

  plain.py walk FROM TO | all CLIENTS OPS KINDS (CLIENTS of o and n: old and new) | mutants [RULE...]
"""
import pickle
import random
import sys
from types import SimpleNamespace

STEP = 4  # 1,000 in earnest; the capacity is 1 to 3, or 6, which is more than a step moves
RULES = {
    "in_place": "while there are no shards, every operation works on the plain list in place",
    "outgrow": "a push that would make it longer than a shard renames it to be the only shard before",
    "outgrow_end": "so its elements stay on their side of what is pushed",
    "outgrow_cap": "the capacity that the list has from then on is kept with it",
    "back": "the only shard becomes the plain list again when an operation leaves it at most half full",
    "back_free": "but not if newcomers are at that key", "back_expiry": "the list's expiry becomes the key's TTL", "take_in": "every operation takes newcomers in, if the list has elements",
    "reads_take_in": "reads too", "by_join": "newcomers join the end that is known", "says": "if none is, the one that the operation says",
    "keep_end": "an end at which some newcomers have been taken in is known, if more of them wait",
    "pop_decides": "a pop decides which end it is", "push_until": "a push does so only while nothing else has",
    "put_back": "a put-back counts as a pop", "join_after": "the end changes after newcomers have been taken in",
    "step_tells": "Adopt and Restore that are told where elements are popped count as a pop",
    "forget": "an empty list and a short one forget the end", "armed_keeps": "an armed one does not",
    "fill": "newcomers fill the end shard before the rest of them becomes the next one",
    "onto_long": "they are moved onto a long shard that is not alone", "step": "a script moves at most STEP of them",
    "try_again": "if some remain, it replies TRYAGAIN, with nothing else done", "unrecorded": "TRYAGAIN is not recorded",
    "expiry_over": "the TTL of a plain list taken over becomes the list's", "expiry_in": "so does that of newcomers",
    "expiry_first": "with the first of them, not the last", "persist": "the shard that was the plain key loses its TTL",
    "spare": "an expired list spares the plain key", "expired": "it is emptied before newcomers are looked at",
    "ring_over": "a push that outgrows the key rings for the armed", "ring_plain": "so do elements found in a plain list",
    "ring_on": "a woken pop that leaves elements rings", "arm_again": "a woken pop that leaves none arms",
    "slice": "who waits looks again after a while",
    "push_onto": "a push goes onto a long shard that is not alone", "carve_inner": "the inner end of a long shard is carved",
    "carve_not": "while a list is restored, pushes do not carve", "open_first": "Restore takes in before it renames",
    "part": "if a step moves only some of an inner shard, that shard is the part, and may be short until it is an end or full",
    "part_first": "no other is made before", "part_onto": "a push beside the part goes onto the end shard, which so stays beside it",
    "part_in": "so do newcomers", "part_fills": "Adopt fills the part", "rename_part": "RENAME carries the part along",
    "at_once": "it renames the last shard and writes the mark in one script", "expires": "the list's expiry becomes the key's TTL",
    "mark_stays": "the mark outlives the last element",
    "mode_once": "the step that changes the mode is numbered too, and done once",
    "mode_guard": "the other steps of Adopt and Restore do nothing in a mode that is not theirs",
    "record": "a script repeated under its number does nothing", "probe": "a push first asks whether memory is full",
    "del_all": "DEL deletes newcomers too", "rename_all": "RENAME takes newcomers in, and along",
    "rename_join": "RENAME carries the end that newcomers join", "rename_target": "RENAME deletes its target's plain key",
    "rename_rings": "RENAME to an armed name rings", "rename_mark": "RENAME leaves the mark with the source's name",
    "rename_marked": "what it brings to a name with the mark becomes the plain key",
    "rename_gathers": "from several shards, which it makes one before, in steps",
    "on_key": "commands that are sent as one are carried out on the plain key only if there is no meta and it stays within a shard",
    "on_key_record": "where they are not, that is their result: a late copy does nothing",
}
BY = {"push": "push", "putback": "pop", "pop": "pop", "bpop": "pop"}  # what tells the end that newcomers join


class Violation(Exception):
    """What must not happen has happened."""


def never(wrong, *words):
    if wrong:
        raise Violation(" ".join(map(str, words)))


def put(q, end, xs):
    for x in xs:
        q.insert(len(q) if end else 0, x)


def move(src, end, dst, n):
    """Moves up to n elements one by one from an end of src to the other end of dst, so that they keep their order."""
    n = max(0, min(n, len(src)))
    for _ in range(n):
        put(dst, 1 - end, [src.pop(-end)])
    return n


class World:
    def __init__(self, clients, pop_end, queue, initial, shards, ttl=None, without=None, cap=2, caps=()):
        self.lists = {name: SimpleNamespace(s=[], p=[], pttl=None, bell=0, join=None, armed=False, expires=None, mode="normal",
                                            part=None, cap=cap)
                      for name in ("jobs", "other")}
        l, self.queue, self.pop_end, self.without, self.caps, self.moved = self.lists["jobs"], queue, pop_end, without, caps or (cap,), 0
        l.p, l.pttl = [("i", n) for n in range(initial)], ttl if initial else None
        l.s = [[("s", n, m) for m in range(size)] for n, size in enumerate(shards)]
        self.clients = [dict(kind=kind, place="idle", number=0, record=(0, None), on_key=(0, None), op=None) for kind in clients]
        self.born, self.popped, self.gone, self.ahead, self.late, self.doomed = {*l.p, *sum(l.s, [])}, set(), set(), {}, [], []
        self.now, self.full, self.promise, self.end, self.told = 0, False, False, dict.fromkeys(self.lists), dict.fromkeys(self.lists)

    def has(self, rule):
        return rule != self.without

    def settle(self, l):
        """What stands behind every script: meta follows what is there."""
        l.s = [q for q in l.s if q]
        l.part = l.part if any(q is l.part and len(q) < l.cap for q in l.s[1:-1]) else None
        forgets = not l.s and l.mode == "normal" and not (l.armed and self.has("armed_keeps")) and self.has("forget")
        l.join, l.expires = None if forgets else l.join, l.expires if l.s else None
        l.mode = "normal" if not l.s and not l.p and l.mode == "plain" and not self.has("mark_stays") else l.mode

    def open(self, l, kind, adds=0, adopts=False):
        """Makes the list and its plain key one. adds is how many elements are pushed. Returns what the script replies if it ends here."""
        reads, self.looks = kind == "read", False
        if l.mode != "plain" and l.expires is not None and self.now > l.expires and (not l.p or self.has("expired")):
            l.s, l.p = [], l.p if self.has("spare") else []
            self.settle(l)
        if not self.has("join_after"):
            self.decide(l, kind)
        short = not l.s and l.mode != "plain"
        outgrows = short and (len(l.p) + adds > self.caps[self.c % len(self.caps)] and adds and self.has("outgrow") or adopts or not self.has("in_place"))
        if l.mode == "plain" or short and not outgrows:
            self.looks, l.s, l.p, l.expires, l.pttl = True, [l.p] if l.p else [], [], l.pttl, None  # the only shard until the script ends
            if l.s and l.armed and not reads:
                l.armed, l.bell = not self.has("ring_plain"), int(self.has("ring_plain"))
        elif short:
            l.s, l.p, l.expires, l.pttl = [l.p] if l.p else [], [], l.pttl if self.has("expiry_over") else None, None
            if not self.has("outgrow_end"):
                l.s = [q[::-1] for q in l.s]
            if l.armed and l.s:
                l.armed, l.bell = False, int(self.has("ring_over"))
            l.cap = self.caps[self.c % len(self.caps)]
        elif l.p and self.has("take_in") and (not reads or self.has("reads_take_in")):
            says = 1 if self.says is None or not self.has("says") else self.says
            j = l.join[0] if l.join and (self.has("by_join") or self.says is None) else says
            long = len(l.s[-j]) > l.cap and self.has("onto_long") or self.beside(l, j) and self.has("part_in")
            fill, most = l.cap - len(l.s[-j]) if self.has("fill") else 0, STEP if self.has("step") else 99
            moves = long and len(l.s) > 1 or min(fill, len(l.p)) > most
            room = most if moves else fill
            expires = l.pttl is not None and self.has("expiry_in") and (not moves or len(l.p) <= room or self.has("expiry_first"))
            l.expires = l.pttl if expires else l.expires
            self.moved += move(l.p, 1 - j, l.s[-j], room)
            if l.p and moves and self.has("try_again"):
                l.join = l.join or ((j, "push") if self.has("keep_end") else None)
                return "TRYAGAIN"
            put(l.s, j, [l.p] if l.p and not moves else [])
            l.p, l.pttl = l.p if moves else [], None
        self.decide(l, kind)

    def back(self, l):
        """Makes the only shard the plain list, if it is at most half full."""
        free = not l.p or not self.has("back_free")
        if l.mode == "normal" and free and len(l.s) == 1 and len(l.s[0]) <= l.cap // 2 and self.has("back"):
            l.p, l.pttl, l.s = l.s[0], l.expires if self.has("back_expiry") else None, []
            l.expires = None

    def decide(self, l, kind):
        """What an operation says of the end that newcomers join: a pop decides it, and a push until then."""
        word = (self.says, BY.get(kind, "pop")) if kind != "putback" or self.has("put_back") else (1 - self.says, "push")
        tells = kind in BY or self.says is not None and self.has("step_tells")
        if tells and (not l.join or (l.join[1], word[1]) == ("push", "pop") and self.has("pop_decides")
                           or word[1] == "push" and not self.has("push_until")):
            l.join = word

    def beside(self, l, e):
        """Whether the neighbour of an end shard is the part."""
        return l.part is not None and len(l.s) > 2 and l.s[-2 * e or 1] is l.part

    def carve(self, l, e):
        """Makes the inner elements of a long end shard a full one of their own, or fills the part with them."""
        beside = self.beside(l, e)
        apart = l.part is not None and self.has("part_first") or self.moved and self.moved + l.cap > STEP
        if not beside and apart:
            return
        if not beside:
            l.part = []
            l.s.insert(len(l.s) - 1 if e else 1, l.part)
        most = min(l.cap - len(l.part), STEP - self.moved)
        self.moved += move(l.s[-e], 1 - e if self.has("carve_inner") else e, l.part, most)
        l.part = l.part if self.has("part") else None
        self.settle(l)

    def push(self, l, e, xs, cap):
        onto_long = len(l.s) > 1 and len(l.s[-e]) > cap and self.has("push_onto") or self.beside(l, e) and self.has("part_onto")
        while xs:
            if not l.s or len(l.s[-e]) >= cap and not onto_long:
                put(l.s, e, [[]])
            room = len(xs) if onto_long else cap - len(l.s[-e])
            put(l.s[-e], e, xs[:room])
            xs = xs[room:]
        l.armed, l.bell = False, 1 if l.armed else l.bell
        if onto_long and self.moved < STEP and (l.mode == "normal" or not self.has("carve_not")):
            self.carve(l, e)

    def shift(self, l, what, begins):
        """A step of Adopt or Restore. True when all is done, None if the other has been called meanwhile."""
        stops = not begins and (l.mode == "normal") != (what == "adopt") and self.has("mode_guard")
        if stops or (what, l.mode) == ("restore", "plain"):
            return None if stops else True
        l.mode = "normal" if what == "adopt" else "restoring"
        if (what == "adopt" or self.has("open_first") or not l.s) and self.open(l, what, adopts=what == "adopt"):
            return False                                            # recorded, since it may have changed the mode
        while what == "adopt":
            beside = [e for e in (0, 1) if self.beside(l, e)]
            ends = [e for e in (0, 1) if l.s and len(l.s[-e]) > l.cap and (not beside or not self.has("part_first"))]
            ends = beside + ends if self.has("part_fills") else ends
            before = self.moved
            if not ends or before >= STEP or self.carve(l, ends[0]) or self.moved == before:
                return not ends
        self.gather(l)
        l.mode = "plain" if not l.s or len(l.s) == 1 and self.has("at_once") else l.mode
        if len(l.s) == 1:
            l.p, l.s, l.pttl, l.expires = l.s[0], [], l.expires if self.has("expires") else None, None
        return l.mode == "plain"

    def gather(self, l):
        """Makes the list fewer shards."""
        while len(l.s) > 1 and self.moved < STEP:
            e = int(len(l.s[-1]) > len(l.s[0]))                     # the longer end shard takes from its neighbour
            e = int(self.beside(l, 1)) if l.part is not None and self.has("part_first") else e
            inner = l.s[-2 * e or 1]
            self.moved += move(inner, e, l.s[-e], STEP - self.moved)
            l.part = inner if self.has("part") else None
            self.settle(l)

    def rename(self, l, to):
        """The mark stays with the names: what comes from a marked one is a long shard, what goes to one is the plain key."""
        to.bell, to.join = int(to.bell or to.armed and self.has("rename_rings")), l.join if self.has("rename_join") else None
        to.s, to.p, to.expires, to.armed, l.s = l.s, [] if self.has("rename_target") else to.p, l.expires, False, []
        to.part, to.cap = l.part if self.has("rename_part") else None, l.cap
        if self.looks and l.mode == "normal" == to.mode:
            to.s, to.p, to.expires, to.pttl = [], sum(to.s, []), None, to.expires
        elif to.mode == "plain" and self.has("rename_marked"):
            self.moved += sum(map(len, to.s)) if len(to.s) > 1 else 0
            to.s, to.p, to.expires, to.pttl = [], sum(to.s, []), None, to.expires
        elif l.mode != "plain":
            to.mode = l.mode = "normal"                             # meta was renamed, and Restore was called for the former name
        elif to.mode == "plain" or not self.has("rename_mark"):
            to.mode = l.mode = "normal"

    def run(self, l, to, kind, e, xs):
        pushes = kind in ("push", "putback")
        result = "OOM" if pushes and self.full and self.has("probe") else None
        skips = l.s and kind in ("del", "rename") and not self.has(kind + "_all")
        adopts = kind == "rename" and to.s != []                    # else both are short, and Redis renames the key
        result = result or (None if skips else self.open(l, kind, len(xs) if pushes else 0, adopts))
        if result:
            return result
        if pushes:
            self.push(l, e, xs, 99 if self.looks else l.cap if self.has("outgrow_cap") else self.caps[self.c % len(self.caps)])
            self.born |= set(xs)
        elif kind in ("pop", "bpop"):
            result = l.s[-e].pop(-e) if l.s else None
            l.s = [q for q in l.s if q]
            if kind == "bpop" and not l.s and (result is None or xs and self.has("arm_again")):
                l.armed, l.bell = True, 0
            elif xs and l.s and self.has("ring_on"):                # woken, and leaves elements
                l.bell = 1
        elif kind == "rename" and to.mode == "plain" and len(l.s) > 1 and self.has("rename_gathers"):
            self.gather(l)
            return "TRYAGAIN"
        elif kind == "rename" and l.s:
            self.rename(l, to)
        result, l.s = sum(l.s, []) if kind == "read" else result, [] if kind == "del" else l.s
        if self.looks:
            l.p, l.s, l.pttl, l.expires = sum(l.s, []), [], l.expires, None
        elif kind in ("pop", "bpop", "rename"):
            self.back(to if kind == "rename" else l)
        return result

    def core(self, l):
        return [x for q in l.s for x in q if x not in self.gone]

    def view(self, name, j=1):
        """What the list has to be, whatever the rules above: newcomers are at its end j."""
        core, new = self.core(self.lists[name]), self.lists[name].p
        return core + new if j else new + core

    def on_key(self, c, op):
        """Commands on a short list as one: here a push. Anything else is left to the ordinary push."""
        l, (_, name, e, xs) = self.lists[op[1]], op
        j = self.told[name][0] if self.told[name] else e
        alone = not l.s and l.mode == "normal" and not l.armed and not self.full and len(l.p) + len(xs) <= self.caps[c % len(self.caps)]
        if alone:
            return self.script(c, ("push", name, e, xs))
        if not self.has("on_key") and not self.full:
            want = self.view(name, j) + xs if e else xs[::-1] + self.view(name, j)
            put(l.p, e, xs)
            self.born |= set(xs)
            never(self.view(name, j) != want or l.armed and not l.bell, "commands on the key have left", l.s, l.p)
            return None
        return "ELSE"

    def script(self, c, op):
        """Runs a script, and compares what it has done to the list with what its command says. Newcomers are at the end opposite
        to the first pop since the list was empty, else that of the first push, else as the operation says, else at the right."""
        (kind, name, e, xs), other, self.moved, self.c = op, "other" if op[1] == "jobs" else "jobs", 0, c
        l, m, push, step = self.lists[name], self.lists[other], kind in ("push", "putback"), kind in ("adopt", "restore")
        told, self.says, cap = self.told[name], None if e is None else e if kind == "push" else 1 - e, self.caps[c % len(self.caps)]
        self.says = self.says if step or kind in BY else None
        j, target = told[0] if told else 1 if self.says is None else self.says, self.view(other)
        seen, core, new, pttl, mode, shards = self.view(name, j), self.core(l), list(l.p), l.pttl, l.mode, len(l.s)
        grows = mode != "restoring" or not push or not core or new or shards < 2 or len(l.s[-e]) <= l.cap
        refusal = "OOM" if push and self.full else None
        result = self.shift(l, kind, xs) if step else self.run(l, m, kind, e, xs)
        self.settle(l)
        if refusal or step and result is None or (kind, mode) == ("restore", "plain"):
            never(refusal and result != refusal or l.p != new or self.core(l) != core, kind, "did", result, "and left", l.s, l.p)
            return result
        again, got, how = result == "TRYAGAIN" or result is False, self.view(name, j), "push" if push else kind.lstrip("b")
        reply = {"pop": seen[-e] if seen and e is not None else None, "read": seen}.get(how, result)
        want = {"push": seen + xs if e else xs[::-1] + seen, "pop": [x for x in seen if x != reply], "del": [], "rename": []}.get(how, seen)
        never(not again and result != reply or got != (seen if again else want), kind, "of", seen, "replied", result, "and left", got)
        gathers = kind == "rename" and m.mode == "plain"
        left, reads, plain = max(0, len(new) - STEP) if again else 0, kind == "read" and not core, l.mode == "plain"
        never(l.s and len(l.p) > left or reads and (l.p != new or l.s) or result == "TRYAGAIN" and not l.p and not gathers,
              kind, "replied", result, "and left", len(l.p), "newcomers of", len(new))
        never(not l.s and not plain and push and len(l.p) > cap, kind, "left a plain list of", len(l.p))
        never(l.mode == "normal" and how == "pop" and not again and len(l.s) == 1 and len(l.s[0]) <= l.cap // 2, "one shard stays:", l.s)
        never(self.moved > STEP + l.cap * push or len(l.s) > shards and not grows, kind, "moved", self.moved, "elements")
        never(result is True and (max(map(len, l.s), default=0) > l.cap if kind == "adopt" else not plain), kind, "was done too early")
        tells = BY.get(kind, step and self.says is not None and "pop")
        part = again and l.p
        if (not told if part else tells and (not told or (told[1], tells) == ("push", "pop"))):
            self.told[name] = (j, "push") if part else (self.says, tells)
        if mode != "plain" and new and not reads:
            self.end[name] = pttl if pttl is not None or not core else self.end[name]
            self.doomed += [(pttl, set(new))] * (pttl is not None and l.s != [] and not self.has("persist"))
        ttl = self.end[name] if core or mode == "plain" else pttl
        never(not l.s and l.p and seen and not again and kind != "rename" and l.pttl != ttl, kind, "left the TTL", l.pttl, "and not", ttl)
        if kind == "rename" and seen and not again:
            never(self.view(other, j) != seen or m.p and m.s, "RENAME made", m.s, m.p, "of", seen)
            self.gone, self.end[other], self.told[other], got, name = self.gone | set(target), self.end[name], told, seen, other
        self.gone |= set(seen) if kind == "del" and not again else set()
        behind = len(xs) if not again and (kind == "putback") else 0
        known = self.ahead if kind not in ("del", "rename") and not (core and new and j == self.pop_end) else {}
        self.ahead = {x: n + behind * (kind == "putback" or x in new) for x, n in known.items()}
        places = [k["place"] for k in self.clients] + [k["op"][3][0] for k in self.clients if k["place"] == "again" and k["op"][3]]
        never(name == "jobs" and got and (kind != "read" or core) and "blocked" in places and "woken" not in places
              and not self.lists[name].bell, "somebody sleeps though a script has seen elements")
        return result

    def check(self):
        """What holds behind every script."""
        for name, l in self.lists.items():
            l.pttl, core = l.pttl if l.p else None, self.core(l)
            short = any(len(q) != l.cap and q is not l.part for q in l.s[1:-1])
            apart = l.part is not None and not self.beside(l, 0) and not self.beside(l, 1)
            never(short or apart or not all(l.s) or l.mode == "plain" and l.s, "the shards are", l.s)
            self.end[name] = self.end[name] if core or l.mode == "plain" and l.p else None
            self.told[name] = self.told[name] if core or l.mode != "normal" or l.armed else None
        j = (self.told["jobs"] or (1 - self.pop_end,))[0]
        whole, other = self.view("jobs", j), self.view("other")
        twice = len({*whole, *other}) < len(whole) + len(other) or not self.popped.isdisjoint(whole + other)
        never(twice or not self.gone.isdisjoint(self.popped), "an element is there twice, or has outlived the list or its deletion")
        never(self.promise and self.lists["jobs"].mode != "plain", "the list was taken over again after Restore")
        before, self.ahead = self.ahead, {x: n for n, x in enumerate(whole[::1 - 2 * self.pop_end])}
        overtaken = [x for x, n in self.ahead.items() if n > before.get(x, n)]
        never(overtaken and self.queue and j != self.pop_end, "overtaken:", overtaken)

    def tick(self):
        self.now += 1
        for name, l in self.lists.items():
            if l.pttl is not None and self.now > l.pttl:
                self.gone, l.p = self.gone | set(l.p), []
            if self.end[name] is not None and self.now > self.end[name]:
                self.gone |= {*sum(l.s, []), *(l.p if l.mode == "plain" else [])}
            for q in l.s:
                q[:] = [x for x in q if not any(self.now > ttl and x in xs for ttl, xs in self.doomed)]
            self.settle(l)
        self.check()

    def old(self, kind, name, end, xs):
        l = self.lists[name]
        if kind == "push" and not self.full:
            put(l.p, end, xs)
            self.born |= set(xs)
        elif kind == "pop" and l.p:
            self.popped.add(l.p.pop(-end))
        elif kind == "expire" and l.p:
            l.pttl = self.now + 2
            self.end[name] = l.pttl if l.mode == "plain" else self.end[name]

    def call(self, c, number, op):
        """A script under a number is done once, however often and late it comes."""
        session = op[0] if op[0] == "on_key" else "record"          # what is done in its place has a session of its own
        before, result = self.clients[c][session]
        if number > before or not self.has("record") or not number:
            result = self.on_key(c, op) if op[0] == "on_key" else self.script(c, op)
            if number and (result != "TRYAGAIN" or not self.has("unrecorded")) and (result != "ELSE" or self.has("on_key_record")):
                self.clients[c][session] = (max(number, before), result)
        return result if number >= before or not number else "STALE"

    def step(self, c, op=None, lost=False, late=False, dies=False):
        me, place = self.clients[c], self.clients[c]["place"]
        if me["kind"] == "o":
            self.old(*op)
        elif place == "blocked":                                    # rung, or its slice is over
            if self.lists["jobs"].bell or self.has("slice"):
                self.lists["jobs"].bell, me["place"] = 0, "woken"
        else:
            op = op if place == "idle" else me["op"] if place in ("again", "else") else (*me["op"][:3], ["woken"] if place == "woken" else [])
            me["op"], me["number"], kind, begins = op, me["number"] + (place != "again"), op[0], op[3] == ["begin"]
            number = 0 if begins and not self.has("mode_once") else me["number"]
            self.promise = self.promise and not (kind == "adopt" and begins)
            result = [self.call(c, number, op) for _ in range(1 + lost)][-1]
            self.late += [(c, number, op)] * late
            me["op"] = ("push", *op[1:]) if result == "ELSE" else op
            me["place"] = "again" if result == "TRYAGAIN" else "else" if result == "ELSE" else "blocked" if kind == "bpop" and result is None else \
                kind if result is False and not dies else "idle"
            self.promise = self.promise or kind == "restore" and result is True
            self.popped |= {result} if kind in ("pop", "bpop") and isinstance(result, tuple) else set()
        self.check()

    def drain(self, way):
        """Everything comes out: by pops of a new client or, after Restore, of an old one."""
        self.full, l, c = False, self.lists["jobs"], len(self.clients)
        for n in range(40 * c):
            if self.clients[n % c]["place"] in ("again", "else", "blocked", "woken"):
                self.step(n % c)
        seen, places = self.view("jobs", (self.told["jobs"] or (1 - self.pop_end,))[0]), [me["place"] for me in self.clients]
        never("again" in places or "else" in places or "blocked" in places and seen and not l.bell, "somebody waits for ever")
        self.clients = [dict(me, place="idle") for me in self.clients] + [dict(self.clients[0], kind="n", place="idle")]
        for n in range(200 if way == "restore" else 0):
            if n == 0 or self.clients[c]["place"] != "idle":
                self.step(c, ("restore", "jobs", self.pop_end, ["begin"]))
        never(way == "restore" and (not self.promise or l.s or l.p != seen), "Restore left", l.s, l.p, "of", seen)
        for name in [name for name in self.lists for _ in range(2 * len(self.view(name)))]:
            self.old("pop", name, self.pop_end, []) if (name, way) == ("jobs", "restore") else self.step(c, ("pop", name, self.pop_end, []))
        never(self.born - self.popped - self.gone, "lost:", self.born - self.popped - self.gone)


def walk(seed, without=None):
    r, count = random.Random(seed), 0
    queue, pop_end, ttl, faults = r.random() < .7, r.choice((0, 1)), r.choice((None, None, 3, 8)), r.choice((0, 0, .1, .3))
    clients, cap = r.choice(("on", "oonn", "onnn", "nn")), r.choice((1, 2, 3, 6))
    shards = r.choice(((), (), (2,), (7,), (5, 6)))
    w = World(clients, pop_end, queue, r.choice((0, 1, 3, 6, 12)), shards, ttl, without, cap,
              r.choice(((), (1, 3, 2), (6, 2))))
    rare = r.sample(["putback", "del", "rename", "rename", "adopt", "restore", "edit"], r.choice((0, 1, 2, 4)))
    kinds = {"o": ["push", "push", "pop"] + ["expire"] * (ttl is not None),
             "n": ["push", "push", "on_key", "pop", "pop", "bpop", "read"] + rare}
    for _ in range(r.choice((20, 60, 150))):
        c, x = r.randrange(len(clients)), r.random()
        w.full = w.full != (faults > 0 and .03 < x < .05)
        if x < .03 and ttl:
            w.tick()
        elif w.late and x < .15:
            w.call(*w.late.pop(r.randrange(len(w.late))))
            w.check()
        kind = r.choice(kinds[clients[c]])
        end = (1 - pop_end if kind in ("push", "on_key") else pop_end) if queue or kind == "bpop" else r.choice((0, 1))
        end = None if kind in ("adopt", "restore") and not (queue and pop_end) and r.random() < .5 else end
        xs = [(clients[c], count + n) for n in range(r.choice((1, 1, 1, 2, 7)))] if kind in ("push", "on_key", "putback") else []
        xs, count = ["begin"] if kind in ("adopt", "restore") else xs, count + len(xs)
        name = "other" if r.random() < {"rename": .5, "push": .05, "on_key": .05}.get(kind, 0) else "jobs"
        w.step(c, (kind, name, end, xs), *[r.random() < faults for _ in range(3)])
    w.drain(r.choice(("pops", "restore")))


def every(clients, ops, kinds):
    starts, seen = [(2, ()), (0, ()), (5, (3, 3)), (1, (1,))], set()
    todo = [(pickle.dumps(World(clients, end, True, *start)), (ops,) * len(clients)) for start in starts for end in (0, 1)]
    kinds = {"n": kinds, "o": [k for k in kinds if k in ("push", "pop")]}
    while todo:
        saved, left = todo.pop()
        places = [me["place"] for me in pickle.loads(saved).clients]
        movers = [c for c, place in enumerate(places) if left[c] or place not in ("idle", "blocked")]
        for way in () if movers else ("pops", "restore"):
            pickle.loads(saved).drain(way)
        for c, kind in [(c, kind) for c in movers for kind in (kinds[clients[c]] if places[c] == "idle" else [places[c]])]:
            for dies in (False, True)[:1 + (kind in ("adopt", "restore"))]:
                w, n = pickle.loads(saved), [*left[:c], left[c] - (places[c] in ("idle", "blocked") and left[c] > 0), *left[c + 1:]]
                xs = [(clients[c], 10 * c + left[c])] if kind in ("push", "putback") else ["begin"] * (kind in ("adopt", "restore"))
                w.step(c, (kind, "jobs", 1 - w.pop_end if kind == "push" else w.pop_end, xs), dies=dies)
                key = hash(repr((w.lists, sorted(w.gone), w.clients, sorted(w.popped), w.ahead, w.told, w.promise, w.pop_end, n)))
                todo += [(pickle.dumps(w), n)] * (key not in seen)
                seen.add(key)
    print(f"{clients} x {ops} of {','.join(kinds['n'])}: {len(seen)} states, no violation")


if __name__ == "__main__":
    a, wrong = sys.argv[1:] or ["walk", "0", "2000"], 0
    if a[0] == "all":
        sys.exit(every(a[1], int(a[2]), a[3].split(",")))
    for rule in [None] if a[0] == "walk" else a[1:] or RULES:
        try:
            for seed in range(*map(int, a[1:3])) if a[0] == "walk" else range(20_000):
                walk(seed, rule)
            print(f"without {rule}: NOT CAUGHT" if rule else f"walks {a[1]} to {a[2]}: no violation")
            wrong += rule is not None
        except Violation as v:
            print(f"{f'without {rule} ({RULES[rule]})' if rule else 'VIOLATION'}: {v} (walk {seed})")
            wrong += rule is None
    sys.exit(wrong)
