package stats

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// own are the scripts that are the library's own business, and those of package limit, which has no lists.
var own = strings.Fields(`check copy_step forget guard release repair resolve search strays sweep
	limit_acquire limit_bucket limit_bucket_return limit_day limit_fixed limit_refresh limit_release limit_sliding limit_sliding_return
	spread_close spread_mend spread_move spread_pointers spread_repair spread_retire spread_shards`)

func TestEveryScriptHasAKind(t *testing.T) {
	t.Parallel()
	scripts, err := os.ReadDir("../../lua/commands")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, file := range scripts {
		name := strings.TrimSuffix(file.Name(), ".lua")
		known[name] = true
		if KindOf(name) == Other {
			assert.Contains(t, own, name, "is it one of the library's own?")
		} else {
			assert.NotContains(t, own, name)
		}
	}
	for name := range kinds {
		assert.True(t, known[name], "%s is no script", name)
	}
}

func TestBatchesAreClassifiedByTheirSize(t *testing.T) {
	t.Parallel()
	for calls, class := range map[int]int{1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 512: 9, 513: 10, 100000: 10} {
		assert.Equal(t, class, classOf(calls), "%d calls", calls)
	}
}

func TestNilCountsNothing(t *testing.T) {
	t.Parallel()
	var nobody *List
	assert.NotPanics(t, func() {
		nobody.Operation(Push, 1)
		nobody.Repeat()
		nobody.Lose()
		nobody.Elements(Pop, 1, 0)
		nobody.EndWait(nobody.Wait())
		nobody.WakeUp()
		nobody.Replied(1)
	})
}
