package lua

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Library is the text of FUNCTION LOAD: all commands but those that only a script can be.
//
// A server runs the text once, when it loads the library. So what is in front of the line "-- In each call:" of a file, its constants and
// helpers, is made once, and what is behind it, which depends on KEYS and ARGV, becomes a function. A command calls those functions of
// all files that it requires, in their order, and then its own text. One of a fast path may return the reply.
type Library struct {
	Name string // with a hash of the text, so that versions of the library are beside each other
	Text string
}

// Function returns the name of the function that a command is.
func (l *Library) Function(command string) string { return l.Name + "_" + command }

const libraryPrefix = "shardedlist_"

// LibraryPattern matches the names of the library's versions.
const LibraryPattern = libraryPrefix + "*"

// IsLoaded is a function of no keys. It replies with 1.
const IsLoaded = "is_loaded"

// Functions returns the library.
var Functions = sync.OnceValue(func() *Library {
	text := newAssembler().text()
	hash := sha1.Sum([]byte(text))
	name := libraryPrefix + hex.EncodeToString(hash[:4])
	return &Library{Name: name, Text: strings.ReplaceAll("#!lua name="+nameMark+"\n"+text, nameMark, name)}
})

// onlyScripts are commands that are no functions: script runs a source of the user's, and guard a command that may be refused for what the
// server says of it alone.
var onlyScripts = []string{"guard", "script"}

// onlyFunctions are commands that no script is: where memory is full, a server refuses a function without the flag allow-oom before it
// begins, but a script at its first write that may grow.
var onlyFunctions = []string{"on_key"}

// IsOnlyFunction reports whether a command must not be sent as a script.
func IsOnlyFunction(command string) bool { return slices.Contains(onlyFunctions, command) }

// IsFunction reports whether the library has a command.
func IsFunction(command string) bool { return !slices.Contains(onlyScripts, command) }

const (
	inEachCall = "-- In each call:\n"
	nameMark   = "SHARDEDLIST"
	flagsWord  = "-- Flags "
)

// group returns the name of the commands that a command stands with. Lua allows 200 local variables at a time, and so each group has a block
// of its own, with the files that no other needs, and in it each command.
func group(command string) string {
	switch prefix, _, _ := strings.Cut(command, "_"); {
	case prefix == "limit", prefix == "spread" && !Requires(command, "shared/spread_pointers"):
		return prefix
	case prefix == "spread":
		return "pointers"
	case command == "queue_take":
		return "take"
	case Requires(command, "shared/searched") || Requires(command, "shared/transfer"):
		return "search"
	case prefix == "queue" || command == "survey":
		return "queue"
	}
	return "list"
}

// groups are in the order in which they need more and more of what they share.
var groups = []string{"pointers", "limit", "spread", "list", "search", "take", "queue"}

// assembler writes the text of the library.
type assembler struct {
	out      strings.Builder
	commands map[string][]string        // by group
	users    map[string]map[string]bool // the groups that require a file
	counts   map[string]int             // of the commands that require it
	written  map[string]bool            // files
}

func newAssembler() *assembler {
	a := &assembler{commands: map[string][]string{}, users: map[string]map[string]bool{}, counts: map[string]int{}, written: map[string]bool{}}
	for _, command := range Commands() {
		if !IsFunction(command) {
			continue
		}
		g := group(command)
		a.commands[g] = append(a.commands[g], command)
		for _, file := range mustCompose(command) {
			if a.users[file] == nil {
				a.users[file] = map[string]bool{}
			}
			a.users[file][g] = true
			a.counts[file]++
		}
	}
	return a
}

func (a *assembler) text() string {
	a.out.WriteString("local KEYS, ARGV\nlocal EACH = {}\n")
	fmt.Fprintf(&a.out, "redis.register_function{function_name='%s_%s', callback=function() return 1 end, flags={'no-writes'}}\n", nameMark, IsLoaded)
	for _, g := range groups {
		a.files(g, false)
		a.out.WriteString("do\n")
		a.files(g, true)
		for _, command := range a.commands[g] {
			a.command(command)
		}
		a.out.WriteString("end\n")
	}
	return Compact(a.out.String())
}

// files writes the files that several commands of a group require: those that are its own, or those that it shares.
func (a *assembler) files(group string, own bool) {
	for _, command := range a.commands[group] {
		for _, file := range mustCompose(command) {
			if isOwn := len(a.users[file]) == 1; a.counts[file] > 1 && isOwn == own {
				a.file(file)
			}
		}
	}
}

// file writes a file, unless it is written already.
func (a *assembler) file(file string) {
	if strings.HasPrefix(file, "commands/") || a.written[file] {
		return
	}
	a.written[file] = true
	once, each := split(file)
	a.out.WriteString(once)
	if each != "" {
		fmt.Fprintf(&a.out, "function EACH.%s()\n%send\n", eachName(file), each)
	}
}

// command writes a command, behind the files that no other requires, and registers it.
func (a *assembler) command(command string) {
	a.out.WriteString("do\n")
	var before strings.Builder
	for _, file := range mustCompose(command) {
		a.file(file)
		if _, each := split(file); each != "" {
			fmt.Fprintf(&before, "EACH.%s() or ", eachName(file))
		}
	}
	text, _ := read(files, "commands/"+command)
	flags := ""
	for _, flag := range flagsOf(text) {
		flags += "'" + flag + "',"
	}
	fmt.Fprintf(&a.out, "local function run()\n%send\n", text)
	fmt.Fprintf(&a.out, "redis.register_function{function_name='%s_%s', flags={%s}, callback=function(keys, argv)\n", nameMark, command, flags)
	fmt.Fprintf(&a.out, "KEYS, ARGV = keys, argv\nreturn %srun()\nend}\nend\n", before.String())
}

// split returns what of a file is done once, and what in each call.
func split(file string) (once, each string) {
	text, _ := read(files, file)
	once, each, _ = strings.Cut(text, inEachCall)
	return once, each
}

// eachName names the function of what a file does in each call.
func eachName(file string) string { return strings.ReplaceAll(file, "/", "_") }

// flagsOf returns the flags in the head of a command.
func flagsOf(text string) []string {
	for line := range strings.Lines(text) {
		if list, found := strings.CutPrefix(line, flagsWord); found {
			return strings.Fields(list)
		}
		if !strings.HasPrefix(line, "--") {
			break
		}
	}
	return nil
}
