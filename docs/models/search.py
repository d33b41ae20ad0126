#!/usr/bin/env python3
"""Executable model of LPOS, LREM, LINSERT and COPY in steps (design.md, "Searching in steps").

A client notes its search in meta, reads the shards one by one while others change the list, and sends a last script, which searches what
may have changed since and then does what the command does. Checked at each last script: it replies and changes what the command would
do to the whole list at that moment, once, whatever replies are lost and however late copies of a script arrive. A COPY copies the shards
in place of searching them, to keys that expire until the last script; and a copy that is made stays as it is.

  search.py walk FROM TO | mutants [RULE...]   each rule taken away must be caught
"""
import random
import sys

RULES = {
    "begin": "the search is noted before the first shard is read",
    "ends": "the end shards count as changed from the start, since what pushes and pops there writes no meta",
    "pops": "whoever moves a pointer inward marks what it has left behind",
    "set": "LSET marks its shard",
    "shift": "what moves elements between shards marks all from there to that end",
    "few": "a note with too many marks is dropped, and not only its marks",
    "gone": "the note goes with the elements, when the list becomes empty",
    "token": "a copy of the first script that comes late makes another note",
    "there": "a step reads nothing where its note is not: the list of that name may be another one for the moment",
    "taken": "what a new note replaces tells what has changed, and the client forgets that",
    "refused": "a last script that has to be preceded by more steps is recorded like one that is done",
    "record": "the last script is done once",
    "dropped": "the last script of a COPY drops the note, so that a step that comes late copies nothing over a shard of the copy",
    "vanished": "the last script finds out whether each shard that was copied is still there",
    "lives": "the last script takes the expiry of each shard of the copy away",
}
CAP, BUDGET, MARKS, ACTIONS = 2, 3, 2, 150
VALUES = "abc"


class Violation(Exception):
    pass


class Server:
    def __init__(self, rules):
        self.rules, self.shards, self.first, self.last = rules, {}, 0, -1
        self.notes, self.records, self.clock = {}, {}, 0
        self.staged, self.copied = {}, {}  # by the prefix of the copy: elements and whether they expire, by shard; and what was copied
        self.elsewhere = {}, 0, -1, {}  # what RENAME has made of it, or will

    def content(self):
        return [x for i in range(self.first, self.last + 1) for x in self.shards[i]]

    def store(self, elements, side):
        """Writes the elements anew from the end opposite to side, whose shards keep their places."""
        if not elements:
            self.empty()
            return
        old = self.content()
        base = self.last if side == 0 else self.first
        edge = len(self.shards[base])
        self.shards = {}
        i = base
        rest = list(elements)
        take = min(edge, len(rest))
        while rest:
            take = min(take, len(rest))
            if side == 0:
                self.shards[i], rest = rest[-take:], rest[:-take]
            else:
                self.shards[i], rest = rest[:take], rest[take:]
            i, take = i + (-1 if side == 0 else 1), CAP
        self.first, self.last = min(self.shards), max(self.shards)
        assert old != elements

    def empty(self):
        self.shards, self.first, self.last = {}, 0, -1
        if "gone" in self.rules:
            self.notes = {}

    # What others do. Each change marks the notes.

    def moved(self):
        for note in self.notes.values():
            if "pops" in self.rules:
                note["low"], note["high"] = max(note["low"], self.first), min(note["high"], self.last)

    def changed(self, start, stop, rule):
        for name, note in list(self.notes.items()):
            if rule not in self.rules:
                continue
            if start <= note["low"]:
                note["low"] = max(note["low"], stop)
            elif stop >= note["high"]:
                note["high"] = min(note["high"], start)
            else:
                note["marks"] |= set(range(start, stop + 1))
                if len(note["marks"]) > MARKS:
                    if "few" in self.rules:
                        del self.notes[name]
                    else:
                        note["marks"] = set()

    def push(self, side, value):
        if self.first > self.last:
            self.shards, self.first, self.last = {0: [value]}, 0, 0
            return
        end = self.last if side else self.first
        if len(self.shards[end]) == CAP:
            end += 1 if side else -1
            self.shards[end] = []
            self.first, self.last = min(self.first, end), max(self.last, end)
        self.shards[end].insert(CAP if side else 0, value)
        self.moved()

    def pop(self, side):
        if self.first > self.last:
            return
        end = self.last if side else self.first
        self.shards[end].pop(-1 if side else 0)
        if not self.shards[end]:
            del self.shards[end]
            if side:
                self.last -= 1
            else:
                self.first += 1
            self.moved()
            if self.first > self.last:
                self.empty()

    def set(self, index, value):
        for i in range(self.first, self.last + 1):
            if index < len(self.shards[i]):
                self.shards[i][index] = value
                if self.first < i < self.last:
                    self.changed(i, i, "set")
                return
            index -= len(self.shards[i])

    def place(self, index):
        for i in range(self.first, self.last + 1):
            if index < len(self.shards[i]):
                return i
            index -= len(self.shards[i])

    def edit(self, elements, touched):
        """Replaces the content; touched are the shards of the first and the last element that is removed, or of the one inserted."""
        low, high = touched
        side = 0 if high - self.first < self.last - low else 1
        start, stop = (self.first, high) if side == 0 else (low, self.last)
        self.store(elements, side)
        self.changed(start, stop, "shift")
        self.moved()

    def rename(self):
        """The list goes away, and another one comes, or it comes back."""
        here = self.shards, self.first, self.last, self.notes
        (self.shards, self.first, self.last, self.notes), self.elsewhere = self.elsewhere, here

    def lrem(self, value):
        content = self.content()
        at = [self.place(i) for i, x in enumerate(content) if x == value]
        if at:
            self.edit([x for x in content if x != value], (at[0], at[-1]))
        return len(at)

    def linsert(self, pivot, value):
        content = self.content()
        if pivot not in content:
            return -1
        i = content.index(pivot)
        self.edit(content[:i] + [value] + content[i:], (self.place(i), self.place(i)))
        return len(content) + 1

    # The scripts of a search.

    def begin(self, uuid, old):
        """Notes a search, in place of an old note, and replies with that."""
        if self.first > self.last:
            return None
        replaced = self.notes.pop(old, None)
        self.clock += 1
        name = (uuid, self.clock) if "token" in self.rules else (uuid, 0)
        ends = "ends" in self.rules
        self.notes[name] = {"low": self.first - (not ends), "high": self.last + (not ends), "marks": set()}
        return name, self.first, self.last, replaced

    def read(self, shard, value, name=None):
        if name and name not in self.notes and "there" in self.rules:
            return None
        return [i for i, x in enumerate(self.shards.get(shard, [])) if x == value]

    def stage(self, shard, prefix, name):
        """Copies a shard."""
        if name not in self.notes and "there" in self.rules:
            return None
        if shard in self.shards:
            self.staged.setdefault(prefix, {})[shard] = [list(self.shards[shard]), True]
        return []

    def expire(self, chance):
        """A shard that was copied expires, unless its expiry has been taken away."""
        keys = [(prefix, i) for prefix, shards in self.staged.items() for i in shards if shards[i][1]]
        if keys:
            prefix, i = chance.choice(keys)
            del self.staged[prefix][i]

    def check_copies(self):
        for prefix, (ids, content) in self.copied.items():
            now = [x for i in ids for x in self.staged[prefix].get(i, [[]])[0]]
            if now != content:
                raise Violation(f"the copy {prefix} of {content} has become {now}")

    def end(self, session, number, name, command, args, known):
        done = self.records.get(session, (0, None))
        if done[0] > number:
            return "stale"
        if done[0] == number and "record" in self.rules:
            return done[1]
        note = self.notes.get(name)
        if name and not note and self.first <= self.last:
            reply = "more"
        else:
            reply = self.search(note, command, args, known)
        if reply != "more" or "refused" in self.rules:
            self.records[session] = number, reply
        if reply != "more" and (command != "copy" or "dropped" in self.rules):
            self.notes.pop(name, None)
        return reply

    def copy(self, note, prefix, known):
        ids, copies, again = range(self.first, self.last + 1), self.staged.get(prefix, {}), []
        for i in ids:
            sure = note and i in known and note["low"] < i < note["high"] and i not in note["marks"]
            if not sure or i not in copies and "vanished" in self.rules:
                again.append(i)
        if note and sum(len(self.shards[i]) for i in again) > BUDGET + 2 * CAP:
            return "more"
        if prefix in self.copied:
            raise Violation(f"{prefix} is copied twice")
        copies = self.staged.setdefault(prefix, {})
        for i in ids:
            if i in again:
                copies[i] = [list(self.shards[i]), False]
            elif i in copies and "lives" in self.rules:
                copies[i][1] = False
        if ids:
            self.copied[prefix] = ids, self.content()
        return "done"

    def search(self, note, command, args, known):
        if command == "copy":
            return self.copy(note, args, known)
        value, content = args[0], self.content()
        found, unread, before = [], 0, 0
        for i in range(self.first, self.last + 1):
            sure = note and i in known and note["low"] < i < note["high"] and i not in note["marks"]
            if not sure:
                unread += len(self.shards[i])
                if note and unread > BUDGET + 2 * CAP:
                    return "more"
            found += [before + x for x in (known[i] if sure else self.read(i, value))]
            before += len(self.shards[i])
            if found and command != "lrem":
                break
        if command == "lpos":
            want, reply = (content.index(value) if value in content else None), (found[0] if found else None)
        elif command == "linsert":
            want, reply = (content.index(value) if value in content else -1), (found[0] if found else -1)
        else:
            want, reply = [i for i, x in enumerate(content) if x == value], found
        if want != reply:
            raise Violation(f"{command} of {value} in {self.shards} finds {reply} in place of {want}, by {known} and {note}")
        if command == "linsert" and found:
            self.linsert(value, args[1])
        if command == "lrem":
            self.lrem(value)
        return "done"


class Client:
    """One search after the other, a script at a time, with replies that are lost and copies that come late."""

    def __init__(self, name, server, chance):
        self.name, self.server, self.chance, self.number = name, server, chance, 0
        self.late, self.searches = [], 0
        self.start()

    def start(self):
        self.note, self.known, self.todo, self.rounds, self.sent, self.early = None, {}, None, 0, None, False
        self.searches += 1
        self.command = self.chance.choice(["lpos", "lrem", "linsert", "copy"])
        self.args = self.chance.choice(VALUES), self.chance.choice(VALUES)
        if self.command == "copy":
            self.args = self.name, self.searches

    def forget(self, replaced):
        if "taken" in self.server.rules:
            low, high, marks = (replaced[k] for k in ("low", "high", "marks")) if replaced else (0, 0, set())
            self.known = {i: k for i, k in self.known.items() if low < i < high and i not in marks}

    def send(self, script):
        """Sends a script. Perhaps it is lost, or arrives later, or twice; then there is no reply."""
        fate = self.chance.random()
        if fate < 0.06:
            self.late.append(script)
            return "lost", None
        reply = script()
        if fate < 0.12:
            self.late.append(script)
        return ("lost", None) if fate > 0.94 else ("ok", reply)

    def step(self):
        if self.late and self.chance.random() < 0.3:
            self.late.pop(self.chance.randrange(len(self.late)))()
            return
        server = self.server
        if self.todo is None:
            old = self.note
            if "begin" not in server.rules and not self.early and self.command != "copy":
                self.known, self.early = {i: server.read(i, self.args[0]) for i in server.shards}, True
                return
            how, reply = self.send(lambda: server.begin(self.name, old))
            if how == "lost":
                self.note, self.known = None, {}
                return
            if reply is None:
                self.start()
                return
            self.note, first, last, replaced = reply
            if not self.early:
                self.forget(replaced)
            self.todo = [i for i in range(first, last + 1) if i not in self.known]
        elif self.todo:
            shard, note, prefix = self.todo[0], self.note, self.args
            if self.command == "copy":
                how, found = self.send(lambda: server.stage(shard, prefix, note))
                if how == "lost":
                    return
            else:
                found = server.read(shard, self.args[0], self.note)
            self.todo.pop(0)
            if found is None:
                self.todo = []
            else:
                self.known[shard] = found
        elif not self.sent:
            self.number += 1
            note, known, command, args = self.note, dict(self.known), self.command, self.args
            if self.rounds > 3:
                note, known = None, {}
            operation = self.number, self.searches
            self.sent = lambda: server.end(self.name, operation, note, command, args, known)
        else:
            how, reply = self.send(self.sent)
            if how == "lost":
                return
            self.sent = None
            if reply == "more":
                self.todo, self.rounds = None, self.rounds + 1
                return
            if reply != "done":
                raise Violation(f"the caller gets {reply}")
            self.start()


def walk(seed, rules):
    chance = random.Random(seed)
    server = Server(rules)
    clients = [Client(name, server, chance) for name in ("x", "y")]
    end, changes = server.end, set()

    def checked(session, operation, *rest):
        before = server.content()
        number, search = operation
        reply = end(session, number, *rest)
        if server.content() != before:
            if (session, search) in changes:
                raise Violation(f"search {search} of {session} has changed the list twice")
            changes.add((session, search))
        return reply

    server.end = checked
    for _ in range(ACTIONS):
        act = chance.random()
        if act < 0.45:
            chance.choice(clients).step()
        elif act < 0.72 or len(server.content()) < 4:
            server.push(chance.randrange(2), chance.choice(VALUES))
        elif act < 0.86:
            server.pop(chance.randrange(2))
        elif act < 0.92 and server.shards:
            server.set(chance.randrange(len(server.content())), chance.choice(VALUES))
        elif act < 0.95:
            server.linsert(chance.choice(VALUES), chance.choice(VALUES))
        elif act < 0.97:
            server.lrem(chance.choice(VALUES))
        elif act < 0.975:
            server.empty()
        elif act < 0.985:
            server.rename()
        elif act < 0.99:
            server.expire(chance)
        else:
            for _ in range(6):
                server.push(1, chance.choice(VALUES))
        content = [len(server.shards[i]) for i in range(server.first, server.last + 1)]
        server.check_copies()
        if any(n != CAP for n in content[1:-1]) or any(not 0 < n <= CAP for n in content):
            raise Violation(f"the shards have {content}")


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
