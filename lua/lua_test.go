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
		composed := mustCompose(command)
		for i, file := range composed {
			fast := strings.HasPrefix(file, "fast/")
			assert.False(t, fast && slices.Contains(composed[:i], "shared/list"), "%s: %s goes before most helpers", command, file)
		}
	}
}

// Servers get the same code without its comments and indentation, and scripts also without what they do not use, and with short names.
func TestCompact(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "local a='-- b'..\"it's \\\" -- \"..c\nreturn a- -1 ..2\n",
		Compact("-- head\n\n  local a = '-- b' .. \"it's \\\" -- \" .. c -- d\n\t--e\n  return a - -1 .. 2"))
	assert.Equal(t, "local a={first=1,[2]=3}\nlocal function c(b,...)\nreturn b.first+a.first,function()b,a=a,b end\nend\nreturn c(KEYS)\n", Minify(`
		local first = { first = 1, [2] = 3 }
		local function unused(x) return unused(x) end
		local function used_by_unused() return unused() end
		local function pair(value, ...)
			return value.first + first.first, function() value, first = first, value end
		end
		return pair(KEYS)`))
	globals := []string{"KEYS", "ARGV", "redis", "string", "table", "math", "type", "error", "tonumber", "tostring", "pairs", "ipairs", "unpack", "pcall",
		"select", "rawget", "rawequal", "setmetatable"}
	for _, command := range Commands() {
		source := Source(command)
		assert.NotContains(t, source, "[[", "a string or comment of several lines")
		compact, small := Compact(source), Minify(source)
		assert.Equal(t, compact, Compact(compact), command)
		assert.True(t, strings.HasPrefix(command, "queue_") || len(small) <= 26_624, "%s has %d bytes", command, len(small))
		locals := localNames(scan(source))
		for _, name := range globals {
			assert.False(t, locals[name], "%s: %s is a global name", command, name)
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
	for _, file := range slices.Concat(filesOf("shared"), filesOf("fast")) {
		assert.Contains(t, slices.Collect(maps.Keys(required)), file)
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
	helpers := regexp.MustCompile(`(?m)^local (?:function )?(\w+(?:, \w+)*)`)
	for _, file := range slices.Concat(filesOf("shared"), filesOf("fast")) {
		for _, line := range helpers.FindAllStringSubmatch(textOf(t, file), -1) {
			for helper := range strings.SplitSeq(line[1], ", ") {
				uses := regexp.MustCompile(`\b`+helper+`\b`).FindAllString(code.String(), -1)
				assert.Greater(t, len(uses), 1, "%s of %s", helper, file)
			}
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

func filesOf(folder string) []string {
	var paths []string
	for _, name := range names(files, folder) {
		paths = append(paths, folder+"/"+name)
	}
	return paths
}

func textOf(t *testing.T, file string) string {
	t.Helper()
	text, err := fs.ReadFile(files, file+".lua")
	require.NoError(t, err)
	return string(text)
}
