package shardedlist

import (
	"flag"
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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

var faultModes = flag.Bool("fault.modes", false, "run the fault tests while everything is cut, and while nothing is: each must fail")

// The tests that break connections are able to fail: each does if everything is cut, and if nothing is.
func TestFaultTestsCanFail(t *testing.T) {
	t.Parallel()
	if !*faultModes {
		t.Skip("-fault.modes is not given")
	}
	redistest.Shared(t, redistest.Redis) // is installed
	tests := callersOf(t, "NewProxy")
	require.Greater(t, len(tests), 10)
	for _, faults := range []string{"all", "none"} {
		t.Run(faults, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^("+strings.Join(tests, "|")+")$",
				"-test.parallel", "16", "-test.timeout", "15m", "-fault.operations", "400", "-fault.patience", "3s")
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

// callersOf returns the tests of this package that call a function, by themselves or by functions that do.
func callersOf(t *testing.T, function string) (tests []string) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	calls := map[string][]string{} // by caller
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			caller, ok := declaration.(*ast.FuncDecl)
			if !ok || caller.Recv != nil {
				continue
			}
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
		}
	}
	slices.Sort(tests)
	return tests
}
