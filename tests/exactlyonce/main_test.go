package exactlyonce

import (
	"testing"

	"github.com/shardedlist/shardedlist/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
