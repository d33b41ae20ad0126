package pages

import (
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layers are the packages of the library from the bottom up. Those in a row do not know each other.
var layers = [][]string{
	{"lua", "internal/rediserr", "internal/stats", "internal/value"},
	{"internal/script"},
	{"internal/session", "internal/scan"},
	{"internal/batch", "internal/blocking"},
	{"internal/layout"},
	{"internal/oneslot", "internal/spread", "internal/hook"},
	{"internal/detect", "internal/inside"},
	{"internal/survey"},
	{".", "limit"},
	{"queue"},
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	const module = "github.com/shardedlist/shardedlist/"
	var below []string
	for _, layer := range layers {
		for _, folder := range layer {
			p, err := build.ImportDir(folder, 0)
			require.NoError(t, err)
			require.NotEmpty(t, p.GoFiles, folder)
			for _, path := range p.Imports {
				if imported, ours := strings.CutPrefix(path, module); ours {
					assert.Contains(t, below, imported, "imported by %s", folder)
				}
			}
		}
		below = append(below, layer...)
	}
}

// CONTRIBUTING.md and tests/README.md name every folder that holds files, and every file of the root package.
func TestContributingNamesEveryPackage(t *testing.T) {
	t.Parallel()
	var words []string
	for _, name := range []string{"CONTRIBUTING.md", "tests/README.md"} {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		words = append(words, strings.Fields(string(page))...)
	}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		folder := filepath.Dir(path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == ".git" || entry.Name() == "testdata" || entry.Name() == "out" || strings.Count(path, "/") == 2 && strings.HasPrefix(path, "tests/")):
			return filepath.SkipDir
		case path == ".git" || entry.IsDir():
			return nil
		}
		if folder == "." && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			assert.Contains(t, words, path)
		}
		named := folder == "." || strings.HasPrefix(folder, ".") || slices.ContainsFunc(words, func(word string) bool {
			word = strings.Trim(word, "`.,:;")
			return word == folder || folder == "tests/"+word || strings.HasPrefix(folder, "lua/") && word == filepath.Base(folder)+"/"
		})
		assert.True(t, named, "%s is not in CONTRIBUTING.md or tests/README.md", folder)
		return nil
	}))
}
