package exactlyonce

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests that break connections are able to fail: each does if everything is cut, and if nothing is.
func TestFaultTestsCanFail(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	redistest.Shared(t, redistest.Redis) // is installed
	tests, packages := callersOf(t, "NewProxy")
	require.Greater(t, len(tests), 10)
	for _, faults := range []string{"all", "none"} {
		t.Run(faults, func(t *testing.T) {
			t.Parallel()
			args := []string{"test", "-v", "-count=1", "-run", "^(" + strings.Join(tests, "|") + ")$", "-parallel", "16", "-timeout", "15m"}
			cmd := exec.CommandContext(t.Context(), "go", append(args, packages...)...)
			cmd.Env = append(os.Environ(), redistest.FaultsVariable+"="+faults)
			output, err := cmd.CombinedOutput()
			require.Error(t, err)
			results := map[string]string{}
			for _, line := range regexp.MustCompile(`(?m)^ *--- ([A-Z]+): (\S+)`).FindAllStringSubmatch(string(output), -1) {
				results[line[2]] = line[1]
			}
			for _, test := range tests {
				assert.Contains(t, []string{"FAIL", "SKIP"}, results[test], test)
			}
			for name, result := range results {
				if result == "PASS" && !strings.Contains(name, "/") || result == "PASS" && results[filepath.Dir(name)] == "FAIL" {
					t.Errorf("%s passes", name)
				}
			}
		})
	}
}

// callersOf returns the tests that call a function, by themselves or by functions that do, and their packages.
func callersOf(t *testing.T, function string) (tests, packages []string) {
	t.Helper()
	files, err := filepath.Glob("../*/*.go")
	require.NoError(t, err)
	declared := map[string]string{} // packages of tests
	calls := map[string][]string{}  // by caller
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), "go.mod")); err == nil {
			continue // a module of its own
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			caller, ok := declaration.(*ast.FuncDecl)
			if !ok || caller.Recv != nil {
				continue
			}
			declared[caller.Name.Name] = filepath.Dir(file)
			ast.Inspect(caller, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok {
					switch callee := call.Fun.(type) {
					case *ast.Ident:
						calls[caller.Name.Name] = append(calls[caller.Name.Name], callee.Name)
					case *ast.SelectorExpr:
						calls[caller.Name.Name] = append(calls[caller.Name.Name], callee.Sel.Name)
					}
				}
				return true
			})
		}
	}
	found := map[string]bool{function: true}
	for before := 0; before < len(found); {
		before = len(found)
		for caller, callees := range calls {
			if slices.ContainsFunc(callees, func(callee string) bool { return found[callee] }) {
				found[caller] = true
			}
		}
	}
	for name := range found {
		if strings.HasPrefix(name, "Test") {
			tests = append(tests, name)
			packages = append(packages, declared[name])
		}
	}
	slices.Sort(packages)
	return tests, slices.Compact(packages)
}
