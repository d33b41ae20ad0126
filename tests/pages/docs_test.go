package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/hook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/commands.md names every command that the hook takes, every one that it refuses, every list command of go-redis, and every
// method of ShardedList that stands for a command.
func TestCommandsPageIsComplete(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/commands.md")
	require.NoError(t, err)
	supported, refused, found := strings.Cut(string(page), "## What the hook refuses")
	require.True(t, found)
	refused, _, _ = strings.Cut(refused, "## Other commands")

	given, notGiven := hook.Commands()
	assert.ElementsMatch(t, given, column(supported, 1), "commands")
	var always []string
	for line := range strings.Lines(refused) {
		if strings.Contains(line, "| always |") {
			always = append(always, column(line, 1)...)
		}
	}
	assert.ElementsMatch(t, notGiven, always, "commands refused")

	methods := column(supported, 2)
	for method := range reflect.TypeFor[redis.ListCmdable]().Methods() {
		assert.Contains(t, methods, strings.ToLower(method.Name), "a list command of go-redis")
	}
	others := []string{"adopt", "all", "check", "delstrays", "info", "name", "repair", "restore", "stats"}
	for method := range reflect.TypeFor[*shardedlist.ShardedList]().Methods() {
		if name := strings.ToLower(method.Name); !slices.Contains(others, name) {
			assert.Contains(t, methods, name, "a method of ShardedList")
		}
	}
}

// column is the code words in a column of the tables of a page, in lower case and without their package.
func column(page string, number int) (words []string) {
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) <= number {
			continue
		}
		for _, word := range regexp.MustCompile("`[^`]+`").FindAllString(cells[number], -1) {
			words = append(words, strings.TrimPrefix(strings.ToLower(strings.Trim(word, "`")), "shardedlist."))
		}
	}
	return words
}

// examples/README.md has a row with the command of each example. CI runs the commands.
func TestExamplesPageIsComplete(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("examples/README.md")
	require.NoError(t, err)
	folders, err := filepath.Glob("examples/*/main.go")
	require.NoError(t, err)
	var want []string
	for _, path := range folders {
		want = append(want, "go run ./"+filepath.Dir(path))
	}
	assert.ElementsMatch(t, want, column(string(page), 4))
}

// The pages name tests as what proves a promise. Each is there.
func TestPagesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(source, -1) {
			there[string(found[1])] = true
		}
		return err
	}))
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	named := 0
	for _, path := range append(pages, "tests/README.md") {
		page, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllSubmatch(page, -1) {
			assert.True(t, there[string(found[1])], "%s names %s", path, found[1])
			named++
		}
	}
	assert.Greater(t, named, 100)
}
