package pages

import (
	"os"
	"testing"

	"github.com/shardedlist/shardedlist/tests/harness"
)

// The tests read the files of the project from its root.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	harness.Main(m)
}
