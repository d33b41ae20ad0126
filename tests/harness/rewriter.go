package harness

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/lua"
)

// NewRewriter returns a hook that changes scripts. It panics if no script has one of the old texts: the list would not be broken.
func NewRewriter(texts ...string) redis.Hook {
	sent() // which takes seconds under the race detector, more than some callers wait for a reply
	texts = slices.Clone(texts)
	for i, text := range texts {
		texts[i] = compactPart(text)
	}
	for i := 0; i < len(texts); i += 2 {
		if !strings.Contains(allScripts(), texts[i]) {
			panic("no script has " + texts[i])
		}
	}
	return &rewriter{texts: strings.NewReplacer(texts...), bySHA: map[string]string{}, change: map[string]bool{}}
}

var allScripts = sync.OnceValue(func() string {
	all := ""
	for _, command := range lua.Commands() {
		all += lua.Source(command)
	}
	return lua.Compact(all)
})

// compactPart returns a part of a source as lua.Compact leaves it, which may begin or end within a line.
func compactPart(text string) string {
	compact := lua.Compact(text)
	if !strings.HasSuffix(text, "\n") {
		compact = strings.TrimSuffix(compact, "\n")
	}
	return compact
}

// sent has the command of each script, by its text as clients send it.
var sent = sync.OnceValue(func() map[string]string {
	commands := map[string]string{}
	for _, command := range lua.Commands() {
		commands[lua.Minify(lua.Source(command))] = command
	}
	return commands
})

// changed returns the script with the texts replaced.
func (r *rewriter) changed(script string) string {
	front := "" // a source of the user's
	command, found := sent()[script]
	for text, name := range sent() {
		if cut, ok := strings.CutSuffix(script, text); ok && !found {
			front, command = cut, name
		}
	}
	if command == "" {
		return script
	}
	return front + lua.Minify(r.texts.Replace(lua.Compact(lua.Source(command))))
}

type rewriter struct {
	texts  *strings.Replacer
	mu     sync.Mutex
	bySHA  map[string]string // the changed script, by the SHA of the original
	change map[string]bool   // scripts that are already changed
}

// noScript is the reply to an EVALSHA of a script that the rewriter has not seen yet; the client then sends its text.
type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT" }
func (noScript) RedisError()   {}

// noFunctions is the reply of a server without functions, so that the client sends scripts.
type noFunctions string

func (err noFunctions) Error() string { return string(err) }
func (noFunctions) RedisError()       {}

func (r *rewriter) rewrite(cmd redis.Cmder) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	args := cmd.Args()
	switch args[0] {
	case "eval":
		if source := args[1].(string); !r.change[source] {
			sum := sha1.Sum([]byte(source))
			changed := r.changed(source)
			r.bySHA[hex.EncodeToString(sum[:])], r.change[changed] = changed, true
			args[1] = changed
		}
	case "fcall":
		err := noFunctions("ERR unknown command 'fcall'")
		cmd.SetErr(err)
		return err
	case "evalsha":
		changed, known := r.bySHA[args[1].(string)]
		if !known {
			cmd.SetErr(noScript{})
			return noScript{}
		}
		args[0], args[1] = "eval", changed
	}
	return nil
}

func (r *rewriter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *rewriter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := r.rewrite(cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (r *rewriter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if err := r.rewrite(cmd); err != nil {
				return err
			}
		}
		return next(ctx, cmds)
	}
}
