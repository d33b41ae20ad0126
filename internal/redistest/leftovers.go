package redistest

import (
	"context"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// LeftoversVariable is the variable with which servers load a changed library of functions, to show that a call finds nothing of the call
// before: each variable that a call sets has another value before that. Any value but "all" is also a line to remove, so that something is left
// over. Clusters load the usual one.
const LeftoversVariable = "SHARDEDLIST_LEFTOVERS"

// leftovers is the hook that changes the library.
type leftovers string

func (l leftovers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l leftovers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if text, ok := args[len(args)-1].(string); ok && strings.HasPrefix(text, "#!lua name=shardedlist_") {
			args[len(args)-1] = l.change(text)
		}
		return next(ctx, cmd)
	}
}

func (l leftovers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

var (
	eachCall  = regexp.MustCompile(`(?m)^function EACH\.\w+\(\)\n`)
	variables = regexp.MustCompile(`(?m)^local ([A-Z_,]+)\n`) // those of files have names in capitals, those of functions have not
)

// change puts the other value into all variables that are declared, without a value, between a function EACH and the one before it.
func (l leftovers) change(text string) string {
	if l != "all" {
		text = replace(text, string(l)+"\n", "")
	}
	text = replace(text, "local EACH={}\n", "local EACH={leftover={}}\n")
	var out strings.Builder
	from := strings.Index(text, "local EACH") // behind KEYS and ARGV
	out.WriteString(text[:from])
	for _, at := range eachCall.FindAllStringIndex(text, -1) {
		part := text[from:at[0]]
		out.WriteString(part + text[at[0]:at[1]])
		for _, match := range variables.FindAllStringSubmatch(part, -1) {
			for _, name := range strings.Split(match[1], ",") {
				out.WriteString(name + "=EACH.leftover\n")
			}
		}
		from = at[1]
	}
	return out.String() + text[from:]
}

// replace panics if the text does not have the old part: nothing would be left over.
func replace(text, old, with string) string {
	if !strings.Contains(text, old) {
		panic("the library has no " + old)
	}
	return strings.ReplaceAll(text, old, with)
}
