package lua

import (
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every command composes, ends with its own text, begins with its fast path if it has one, and says what a caller has to know.
func TestEveryCommandComposes(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, Commands())
	for _, command := range Commands() {
		text := textOf(t, "commands/"+command)
		assert.True(t, strings.HasSuffix(Source(command), text), command)
		head, _, _ := strings.Cut(text, "\n\n")
		for _, word := range []string{"KEYS", "ARGV", "Reply", "Cost"} {
			assert.Regexp(t, "(?m)^-- "+word+" ", head, command)
		}
		for i, file := range requiredBy(text) {
			assert.True(t, i == 0 || !strings.HasPrefix(file, "fast/"), "%s: a fast path goes before the helpers", command)
		}
	}
}

func TestEveryFileIsRequired(t *testing.T) {
	t.Parallel()
	required := map[string]bool{}
	for _, command := range Commands() {
		for _, file := range mustCompose(command) {
			required[file] = true
		}
	}
	for _, folder := range []string{"shared", "fast"} {
		for _, name := range names(files, folder) {
			assert.Contains(t, slices.Collect(maps.Keys(required)), folder+"/"+name)
		}
	}
	assert.True(t, Requires("push", "shared/list"), "through others")
	assert.False(t, Requires("llen", "shared/session"))
}

// The linter lets helpers be unused, since no command uses all of them.
func TestEveryHelperIsUsed(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	require.NoError(t, fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			code.WriteString(regexp.MustCompile("--.*").ReplaceAllString(textOf(t, strings.TrimSuffix(path, ".lua")), ""))
		}
		return err
	}))
	helpers := regexp.MustCompile(`(?m)^local (?:function )?(\w+)`)
	for _, name := range names(files, "shared") {
		for _, helper := range helpers.FindAllStringSubmatch(textOf(t, "shared/"+name), -1) {
			uses := regexp.MustCompile(`\b`+helper[1]+`\b`).FindAllString(code.String(), -1)
			assert.Greater(t, len(uses), 1, "%s of shared/%s", helper[1], name)
		}
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{}
	for name, head := range map[string]string{
		"a":       "-- What it does.\n--\n-- requires: b c\n",
		"b":       "-- requires: d\n",
		"c":       "-- requires: d b\n",
		"d":       "local x\n-- requires: e\n", // not at the head
		"loop":    "-- requires: b back\n",
		"back":    "-- requires: loop\n",
		"dangles": "-- requires: b nowhere\n",
	} {
		files[name+".lua"] = &fstest.MapFile{Data: []byte(head)}
	}
	composed, err := compose(files, "a")
	require.NoError(t, err)
	assert.Equal(t, []string{"d", "b", "c", "a"}, composed)
	_, err = compose(files, "loop")
	assert.EqualError(t, err, "lua: a cycle of files: loop requires back requires loop")
	_, err = compose(files, "dangles")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, "lua: dangles requires nowhere: ")
	assert.Panics(t, func() { Source("nowhere") })
}

func textOf(t *testing.T, file string) string {
	t.Helper()
	text, err := fs.ReadFile(files, file+".lua")
	require.NoError(t, err)
	return string(text)
}
