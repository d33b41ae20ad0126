package release

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// public are the packages whose exported names are promised.
var public = []string{".", "./limit", "./queue"}

// The public API is that of testdata/api.txt: a change of it is one of that file, too, which a reader of the change sees.
func TestThePublicAPIChangesOnPurpose(t *testing.T) {
	t.Parallel()
	var api strings.Builder
	for _, path := range public {
		cmd := exec.Command("go", "doc", "-all", path)
		cmd.Dir = "../.."
		text, err := cmd.Output()
		require.NoError(t, err)
		api.WriteString(declarations(string(text)))
	}
	const file = "testdata/api.txt"
	if *write == "api" {
		require.NoError(t, os.WriteFile(file, []byte(api.String()), 0o644))
	}
	known, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(known), api.String(), "the exported API has changed. If that is on purpose: go test ./tests/release -write api")
}

// declarations returns the name of the package and the declarations in what go doc prints.
func declarations(text string) string {
	var kept strings.Builder
	about, declared, _ := strings.Cut(text, "\nCONSTANTS\n")
	if declared == "" {
		about, declared, _ = strings.Cut(text, "\nVARIABLES\n")
	}
	name, _, _ := strings.Cut(about, "\n")
	kept.WriteString(name + "\n")
	for line := range strings.Lines(declared) {
		code, _, _ := strings.Cut(line, " // ")
		code = strings.TrimRight(code, " \t\n")
		comment := strings.HasPrefix(code, "    ") || strings.HasPrefix(strings.TrimSpace(code), "//")
		if code != "" && !comment && strings.ToUpper(code) != code {
			kept.WriteString(code + "\n")
		}
	}
	return kept.String()
}
