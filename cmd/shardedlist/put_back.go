package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// putBackTimeout is how long a command tries to put back what it popped and could not print.
const putBackTimeout = 5 * time.Second

// putBack pushes elements that were popped and not printed back to the end that they came from, in their order, and returns the
// cause. It says how many they are, unless all is well but for a reader that wants no more.
func (a *app) putBack(ctx context.Context, push func(ctx context.Context, values []string) error, elements []string, cause error) error {
	if len(elements) == 0 || cause == nil {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackTimeout)
	defer cancel()
	slices.Reverse(elements) // the first that was popped is pushed last
	switch err := push(ctx, elements); {
	case err != nil:
		fmt.Fprintf(a.stderr, "shardedlist: elements taken, not printed, and not put back: %d: %s\n", len(elements), oneLine(err.Error(), err))
	case !errors.Is(cause, syscall.EPIPE):
		fmt.Fprintf(a.stderr, "shardedlist: elements put back: %d\n", len(elements))
	}
	return cause
}

// popped returns the elements that a command has popped from one list, and what pushes them back.
func popped(rdb redis.UniversalClient, words []string, r reply) (elements []string, push func(ctx context.Context, values []string) error) {
	command := strings.ToLower(words[0])
	if r.kind == failure || r.kind == null || len(words) < 2 {
		return nil, nil
	}
	list, taken := words[1], []reply{r}
	left := command == "lpop" || command == "blpop"
	switch command {
	case "lpop", "rpop":
		if r.kind == array {
			taken = r.parts
		}
	case "blpop", "brpop":
		list, taken = r.parts[0].text, r.parts[1:]
	case "lmpop", "blmpop":
		at := 1
		if command == "blmpop" {
			at = 2
		}
		end := words[at+1+len(numbered(at)(words))]
		list, left, taken = r.parts[0].text, strings.EqualFold(end, "left"), r.parts[1].parts
	default:
		return nil, nil
	}
	for _, element := range taken {
		elements = append(elements, element.text)
	}
	return elements, func(ctx context.Context, values []string) error {
		_, err := do(ctx, rdb, append([]string{map[bool]string{true: "lpush", false: "rpush"}[left], list}, values...))
		return err
	}
}
