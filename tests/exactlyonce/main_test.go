package exactlyonce

import (
	"testing"
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
)

func TestMain(m *testing.M) {
	script.FarAway = time.Hour // crowds share writes, whatever the machine
	harness.Main(m)
}
