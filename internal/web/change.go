package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
)

// wish is what a viewer wants changed.
type wish struct {
	Confirm string `json:"confirm"` // the name of the list as the page shows it, typed again

	Start  *int64   `json:"start"` // of trim
	Stop   *int64   `json:"stop"`
	End    string   `json:"end"` // of push: left or right
	Values [][]byte `json:"values"`
	Popped string   `json:"popped"` // of adopt and restore: the end at which elements are popped, or nothing
}

// changes are what a viewer may do with a list if changes are allowed.
var changes = map[string]func(ctx context.Context, client redis.UniversalClient, name string, o wish) (any, error){
	"delete":  doDelete,
	"adopt":   doAdopt,
	"restore": doRestore,
	"trim":    doTrim,
	"push":    doPush,
}

// change does what a viewer wants, if he may, and has named the list.
func (s *Server) change(w http.ResponseWriter, r *http.Request,
	do func(context.Context, redis.UniversalClient, string, wish) (any, error),
) {
	name, o := r.URL.Query().Get("name"), wish{}
	err := json.NewDecoder(r.Body).Decode(&o)
	switch {
	case !s.AllowChanges:
		err = fail(http.StatusForbidden, "this page only reads: start it with --allow-changes")
	case err != nil:
		err = fail(http.StatusBadRequest, "bad request: "+err.Error())
	case name == "" || o.Confirm != Display(name):
		err = fail(http.StatusConflict, "the name that was typed is not that of the list")
	}
	if err != nil {
		reply(w, nil, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	result, err := do(ctx, s.Client, name, o)
	if isTheirs(err) {
		err = failure{http.StatusUnprocessableEntity, err}
	}
	reply(w, map[string]any{"result": result}, err)
}

// isTheirs reports whether the list is such that the change cannot be done.
func isTheirs(err error) bool {
	for _, known := range []error{shardedlist.ErrSpread, shardedlist.ErrWrongType, shardedlist.ErrPoppedAt, shardedlist.ErrReversed, shardedlist.ErrEnd,
		shardedlist.ErrOwnKey, shardedlist.ErrBroken, shardedlist.ErrLayout} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

func doDelete(ctx context.Context, client redis.UniversalClient, name string, _ wish) (any, error) {
	list, err := open(client, name)
	if err != nil {
		return nil, err
	}
	return list.Del(ctx)
}

func doAdopt(ctx context.Context, client redis.UniversalClient, name string, o wish) (any, error) {
	return doForm(ctx, client, name, o, (*shardedlist.ShardedList).Adopt)
}

func doRestore(ctx context.Context, client redis.UniversalClient, name string, o wish) (any, error) {
	return doForm(ctx, client, name, o, (*shardedlist.ShardedList).Restore)
}

// doForm changes the form of a list, and returns its length. If the viewer leaves, the list is whole, and another change goes on.
func doForm(ctx context.Context, client redis.UniversalClient, name string, o wish,
	run func(*shardedlist.ShardedList, context.Context, func(moved, total int64)) error,
) (any, error) {
	var options []shardedlist.Option
	if o.Popped != "" {
		options = append(options, shardedlist.WithPoppedAt(o.Popped))
	}
	list, err := open(client, name, options...)
	if err != nil {
		return nil, err
	}
	if err := run(list, ctx, nil); err != nil {
		return nil, err
	}
	return list.LLen(ctx)
}

func doTrim(ctx context.Context, client redis.UniversalClient, name string, o wish) (any, error) {
	if o.Start == nil || o.Stop == nil {
		return nil, fail(http.StatusBadRequest, "want the indices of the first and the last element that stay")
	}
	list, err := open(client, name)
	if err != nil {
		return nil, err
	}
	if err := list.LTrim(ctx, *o.Start, *o.Stop); err != nil {
		return nil, err
	}
	return list.LLen(ctx)
}

func doPush(ctx context.Context, client redis.UniversalClient, name string, o wish) (any, error) {
	push := map[string]func(*shardedlist.ShardedList, context.Context, ...any) (int64, error){
		"left": (*shardedlist.ShardedList).LPush, "right": (*shardedlist.ShardedList).RPush,
	}[strings.ToLower(o.End)]
	if push == nil || len(o.Values) == 0 {
		return nil, fail(http.StatusBadRequest, "want an end, left or right, and values")
	}
	list, err := open(client, name)
	if err != nil {
		return nil, err
	}
	values := make([]any, len(o.Values))
	for i, value := range o.Values {
		values[i] = value
	}
	return push(list, ctx, values...)
}
