package lua

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// Servers load the library, which has all commands that can be functions.
func TestServersLoadTheLibrary(t *testing.T) {
	t.Parallel()
	library := Functions()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Cluster, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			for _, node := range redistest.Shared(t, kind).Nodes() {
				rdb := node.Client(t)
				_ = rdb.FunctionDelete(t.Context(), library.Name)
				if err := rdb.FunctionLoad(t.Context(), library.Text).Err(); redis.HasErrorPrefix(err, "READONLY ") {
					continue
				}
				if redistest.WithoutFunctions() {
					continue
				}
				assert.EqualValues(t, 1, rdb.FCall(t.Context(), library.Function(IsLoaded), nil).Val())
			}
			for _, command := range Commands() {
				assert.Equal(t, IsFunction(command), strings.Contains(library.Text, "'"+library.Function(command)+"'"), command)
			}
		})
	}
}

// Luacheck finds nothing in the library as servers load it; .ci/lint-lua checks each script.
func TestLuacheckOfTheLibrary(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("luacheck"); err != nil {
		t.Skip(err)
	}
	check := func(text string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "luacheck", "--config", "../.luacheckrc", "--no-max-line-length", "--no-color", "--formatter", "plain",
			"--ignore", "431", "--", "-") // 431: the local variable of a function has the name of one outside
		cmd.Stdin = strings.NewReader(text)
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	output, err := check(Functions().Text[strings.IndexByte(Functions().Text, '\n'):])
	assert.NoError(t, err, "%s", output)
	output, err = check("local function unused() return undefined end")
	assert.Error(t, err)
	assert.Contains(t, output, "undefined variable")
}

// What a file declares without a value is set in each call, or is a function that another file defines; what has a value is a constant.
func TestNothingIsLeftOverFromTheCallBefore(t *testing.T) {
	t.Parallel()
	declared := regexp.MustCompile(`(?m)^local ([\w, ]+?)( = .*)?( --.*)?$`)
	assigned := regexp.MustCompile(`(?m)^ *([\w, ]+?) =( |$)`)
	names := func(of *regexp.Regexp, text string) (found []string) {
		for _, match := range of.FindAllStringSubmatch(text, -1) {
			found = append(found, strings.Split(match[1], ", ")...)
		}
		return found
	}
	helpers, err := read(files, "shared/keys")
	require.NoError(t, err)
	_, standBeside, found := strings.Cut(helpers, "local function stand_beside(word)\n")
	require.True(t, found)
	standBeside, _, _ = strings.Cut(standBeside, "\nend\n")
	var all strings.Builder
	files := append(filesOf("shared"), filesOf("fast")...)
	for _, file := range files {
		once, _ := split(file)
		all.WriteString(once)
	}
	variables, constants := 0, 0
	for _, file := range files {
		if file == "shared/reply" || !isInLibrary(file) {
			continue
		}
		once, each := split(file)
		if strings.Contains(each, "stand_beside(") {
			each += standBeside
		}
		set := names(assigned, each)
		for _, match := range declared.FindAllStringSubmatch(once, -1) {
			for _, name := range strings.Split(match[1], ", ") {
				if strings.HasPrefix(name, "function ") {
					continue
				}
				if match[2] != "" {
					constants++
					assert.NotContains(t, set, name, "%s: a constant", file)
					continue
				}
				variables++
				defined := strings.Contains(all.String(), "\nfunction "+name+"(") || strings.Contains(once, "  function "+name+"(")
				assert.True(t, defined || slices.Contains(set, name), "%s: %s is not set in each call", file, name)
			}
		}
	}
	assert.Greater(t, variables, 60)
	assert.Greater(t, constants, 20)
}

func isInLibrary(file string) bool {
	return slices.ContainsFunc(Commands(), func(command string) bool { return IsFunction(command) && Requires(command, file) })
}
