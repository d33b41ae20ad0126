// Package inside lets other packages of the module use what a ShardedList is made of.
package inside

import (
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
)

// Layout returns the list in its layout, of a *shardedlist.ShardedList. That package sets it.
var Layout func(list any) layout.List

// Option returns a shardedlist.Option that sets what no option for users does. That package sets it.
var Option func(set func(*oneslot.Config)) any
