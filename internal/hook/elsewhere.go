package hook

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/value"
)

// errOtherDatabase is the error of SELECT: list commands would go on in the database of the client.
var errOtherDatabase = fmt.Errorf("shardedlist: select: %w: the lists of a client are in the database of its options; use a client with another DB", ErrUnsupported)

// elsewhere returns the error of a command that would change what a connection does with the commands behind it, of which those on lists
// take connections of their own. It allocates nothing.
func (h *Hook) elsewhere(cmd redis.Cmder) error {
	args := cmd.Args()
	if len(args) == 0 || isOurs(cmd) {
		return nil
	}
	switch name, _ := args[0].(string); {
	case strings.EqualFold(name, "multi"):
		return errHandWritten
	case strings.EqualFold(name, "select") && len(args) == 2 && value.Text(args[1]) != strconv.FormatInt(database(h.client), 10):
		return errOtherDatabase
	}
	return nil
}

// selectsOther tells whether a command of a pipeline is a SELECT of another database.
func (h *Hook) selectsOther(cmd redis.Cmder) bool { return h.elsewhere(cmd) == errOtherDatabase }
