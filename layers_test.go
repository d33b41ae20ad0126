package shardedlist

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
	{"internal/lua", "internal/rediserr", "internal/stats", "internal/value"},
	{"internal/script"},
	{"internal/session", "internal/scan"},
	{"internal/batch", "internal/blocking"},
	{"internal/layout"},
	{"internal/oneslot", "internal/spread", "internal/hook", "internal/inside"},
	{"internal/detect"},
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

// CONTRIBUTING.md names every folder that holds files, and every file of the root package.
func TestContributingNamesEveryPackage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("CONTRIBUTING.md")
	require.NoError(t, err)
	words := strings.Fields(string(page))
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == ".git" || entry.Name() == "testdata" || entry.Name() == "out"):
			return filepath.SkipDir
		case path == ".git" || entry.IsDir() || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		folder := filepath.Dir(path)
		if folder == "." && strings.HasSuffix(path, ".go") {
			assert.Contains(t, words, path)
		}
		named := folder == "." || slices.ContainsFunc(words, func(word string) bool {
			word = strings.Trim(word, ".,:;")
			return word == folder || word == "."+folder || strings.HasPrefix(folder, "internal/lua/") && word == filepath.Base(folder)+"/"
		})
		assert.True(t, named || strings.HasPrefix(folder, "."), "%s is not in CONTRIBUTING.md", folder)
		return nil
	}))
}
