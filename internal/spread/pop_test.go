package spread

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/shardedlist/shardedlist/internal/batch"
)

// All callers of a pop that has drained a shard learn so, those too that have got all they want: each has to look inward. Of what else a
// shard tells, such callers learn nothing but the border.
func TestCallersWhoShareAPop(t *testing.T) {
	t.Parallel()
	for told, want := range map[string][2]string{
		"DRAINED 1 2 0": {"DRAINED 1 2 0", "DRAINED 1 2 0"},
		"GONE 1 2 0":    {toldEnough, "GONE 1 2 0"},
		"AT 7":          {"AT 7", "AT 7"},
		toldEmpty:       {toldEnough, toldEmpty},
	} {
		first, second := batch.NewRequest(), batch.NewRequest()
		first.Count, second.Count = 1, 2
		surplus := sharePop([]*batch.Request{first, second}, []any{int64(0), told, []any{"a", "b"}})
		assert.Empty(t, surplus)
		assert.Equal(t, []string{"a"}, first.Elements)
		assert.Equal(t, []string{"b"}, second.Elements)
		assert.Equal(t, want, [2]string{first.Told, second.Told}, told)
	}
}
