package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist/internal/survey"
)

// Completion looks at the keys of a server for this long at most, and offers this many names at most.
const (
	completionTime  = time.Second
	completionNames = 100
)

// listNames returns names of lists that begin with a prefix.
func listNames(ctx context.Context, rdb redis.UniversalClient, prefix string) []string {
	return namesOfRows(ctx, rdb, prefix, survey.Options{}, func(survey.Row) bool { return true })
}

// plainNames is listNames for the keys of lists that adopt can take in.
func plainNames(ctx context.Context, rdb redis.UniversalClient, prefix string) []string {
	return namesOfRows(ctx, rdb, prefix, survey.Options{}, canAdopt)
}

// queueNames is listNames for queues.
func queueNames(ctx context.Context, rdb redis.UniversalClient, prefix string) []string {
	return namesOfRows(ctx, rdb, prefix, survey.Options{}, func(r survey.Row) bool { return r.Queue != nil })
}

// namesOfRows returns the names of wanted lists that a survey of bounded time finds.
func namesOfRows(ctx context.Context, rdb redis.UniversalClient, prefix string, o survey.Options, wanted func(survey.Row) bool) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	o.Match = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(prefix) + "*"
	o.WithoutBytes = true
	for row, err := range survey.Rows(ctx, rdb, o) {
		if err != nil || len(names) == completionNames {
			break
		}
		if wanted(row) && !row.Again && !strings.Contains(row.Name, "\n") { // a shell would take it for two
			names = append(names, row.Name)
		}
	}
	slices.Sort(names)
	return names
}

// completesLists has the shell that runs the program complete names of lists, where the arguments name lists.
func (a *app) completesLists(cmd *cobra.Command, lists func(args []string) []string) {
	a.completes(cmd, lists, listNames)
}

func (a *app) completes(cmd *cobra.Command, lists func(args []string) []string,
	names func(ctx context.Context, rdb redis.UniversalClient, prefix string) []string,
) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		showMinus(args)
		named := lists(append(slices.Clone(args), prefix))
		if len(named) == 0 || named[len(named)-1] != prefix || len(lists(args)) == len(named) {
			return nil, cobra.ShellCompDirectiveNoFileComp // it is no name
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		rdb, _, err := a.connect(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
		}
		defer func() { _ = rdb.Close() }()
		return names(ctx, rdb, prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// completer completes the word in front of the cursor of the shell: Tab after Tab shows one possibility after the other, and then the
// word as it was.
type completer struct {
	shell *shell
	ctx   context.Context

	commands []string // of the server, once they were needed

	shown   string   // the line that it has made last
	choices []string // lines to show, the original last
	next    int
}

func (c *completer) complete(line string, at int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	if line != c.shown || at != len(line) || len(c.choices) == 0 {
		c.choices, c.next = c.possible(line[:at]), 0
		if len(c.choices) == 0 || at != len(line) {
			c.choices = nil
			return line, at, true
		}
		c.choices = append(c.choices, line)
	}
	c.shown = c.choices[c.next%len(c.choices)]
	c.next++
	return c.shown, len(c.shown), true
}

// possible returns the lines that the line can become.
func (c *completer) possible(line string) (lines []string) {
	start := strings.LastIndexByte(line, ' ') + 1
	before, word := line[:start], line[start:]
	if strings.TrimSpace(before) == "" {
		for _, command := range c.allCommands() {
			if strings.HasPrefix(command, strings.ToUpper(word)) {
				lines = append(lines, before+command)
			}
		}
		return lines
	}
	for _, name := range listNames(c.ctx, c.shell.lists, strings.TrimLeft(word, `"'`)) {
		lines = append(lines, before+asWord(name))
	}
	return lines
}

// allCommands returns the commands on lists and those of the server, in upper case.
func (c *completer) allCommands() []string {
	if c.commands != nil {
		return c.commands
	}
	c.commands = shellCommands()
	ctx, cancel := context.WithTimeout(c.ctx, completionTime)
	defer cancel()
	known, _ := c.shell.lists.Command(ctx).Result()
	for name := range known {
		c.commands = append(c.commands, strings.ToUpper(name))
	}
	slices.Sort(c.commands)
	c.commands = slices.Compact(c.commands)
	return c.commands
}

// asWord quotes a name if the shell would not read it as one word otherwise.
func asWord(name string) string {
	if words, ok := splitWords(name); ok && len(words) == 1 && words[0] == name && quoted(name) == `"`+name+`"` {
		return name
	}
	return quoted(name)
}
