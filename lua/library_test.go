package lua

import (
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// Servers load the library, which has all commands that can be functions.
func TestServersLoadTheLibrary(t *testing.T) {
	t.Parallel()
	library := Functions()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Cluster, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			for _, node := range redistest.Shared(t, kind).Nodes() {
				rdb := node.Client(t)
				_ = rdb.FunctionDelete(t.Context(), library.Name)
				if err := rdb.FunctionLoad(t.Context(), library.Text).Err(); redis.HasErrorPrefix(err, "READONLY ") {
					continue
				}
				if redistest.WithoutFunctions() {
					continue
				}
				assert.EqualValues(t, 1, rdb.FCall(t.Context(), library.Function(IsLoaded), nil).Val())
			}
			for _, command := range Commands() {
				assert.Equal(t, IsFunction(command), strings.Contains(library.Text, "'"+library.Function(command)+"'"), command)
			}
		})
	}
}

// What a file does in each call begins with values for all of its variables that are not constants, functions among them.
func TestNothingIsLeftOverFromTheCallBefore(t *testing.T) {
	t.Parallel()
	variable := regexp.MustCompile(`(?m)^local ([A-Z_, ]+)( --.*)?$`)
	for _, file := range append(filesOf("shared"), filesOf("fast")...) {
		once, each := split(file)
		for _, match := range variable.FindAllStringSubmatch(once, -1) {
			for _, name := range strings.Split(match[1], ", ") {
				assert.Regexp(t, `(?m)^(  )?([A-Z_]+, )*`+name+`(, [A-Z_]+)* = |^  GENERATION, first`, each+perCall[name], "%s: %s", file, name)
			}
		}
	}
}

// perCall is where else the variables are set that a file declares for others.
var perCall = map[string]string{
	"BESIDE": "BESIDE = ", "PLAIN": "PLAIN = ", "AT_ONCE": "AT_ONCE = ", "WATCHES": "WATCHES = ", "STANDS_IN": "STANDS_IN = ", // by stand_beside
}
