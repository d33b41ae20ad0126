package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/spread"
	"github.com/shardedlist/shardedlist/internal/survey"
)

const (
	lookEvery   = time.Second // those who look at a list share one look
	looksAtOnce = 4           // lists that are looked at so often; if there are more, each is less often
	forgetAfter = time.Minute // nobody has looked at a list
	maxWatched  = 1000        // lists; more are refused
	maxHistory  = 900         // points of a list
)

// watches are the lists that somebody looks at.
type watches struct {
	mu    sync.Mutex
	lists map[string]*watched
	nodes topology
}

// watched is a list that somebody looks at, and what was seen of it.
type watched struct {
	mu      sync.Mutex // held while it is looked at
	view    listView
	before  survey.Row // that the next rate is told from
	err     error
	at      time.Time
	history []point

	asked time.Time // by a viewer; guarded by the mutex of watches
}

// listView is what the page shows of a list alone.
type listView struct {
	rowView
	Exists  bool     `json:"exists"`
	First   int64    `json:"first"` // ids of the shards at the ends, and their lengths
	Last    int64    `json:"last"`
	Head    int64    `json:"head"`
	Tail    int64    `json:"tail"`
	Blocked int64    `json:"blocked"`        // clients that wait on the server, for whatever; -1 if it does not say
	Dead    string   `json:"dead,omitempty"` // the id of the list of the dead, of a queue
	At      int      `json:"at"`             // the node that has the slot, or -1
	Nodes   []string `json:"nodes"`
	Placed  []part   `json:"placed,omitempty"` // the parts of a list that is spread
}

// part is where a part is.
type part struct {
	Slot int `json:"slot"`
	Node int `json:"node"`
	To   int `json:"to"` // the node that the slot moves to, or -1
}

// list replies with what is known of a list, and with what has happened since a time that the viewer names.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	watched, interval, err := s.watches.find(name)
	if err != nil {
		reply(w, nil, err)
		return
	}
	view, history, err := watched.look(s, name, interval, since)
	if since == 0 && len(history) > 0 {
		earlier := s.feed.trend(name)
		earlier = slices.DeleteFunc(earlier, func(p point) bool { return p.At >= history[0].At })
		history = append(earlier, history...)
	}
	reply(w, map[string]any{
		"list": view, "history": history,
		"server": s.Address, "changes": s.AllowChanges, "token": s.token, "now": time.Now().UnixMilli(),
	}, err)
}

// find returns a list that somebody looks at, and how often it may be looked at.
func (w *watches) find(name string) (*watched, time.Duration, error) {
	if name == "" {
		return nil, 0, fail(http.StatusBadRequest, "want the name of a list")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	found := w.lists[name]
	if found == nil {
		for name, other := range w.lists {
			if now.Sub(other.asked) > forgetAfter {
				delete(w.lists, name)
			}
		}
		if len(w.lists) >= maxWatched {
			return nil, 0, fail(http.StatusServiceUnavailable, "too many lists are being looked at")
		}
		if w.lists == nil {
			w.lists = map[string]*watched{}
		}
		found = &watched{}
		w.lists[name] = found
	}
	found.asked = now
	return found, lookEvery * time.Duration(1+len(w.lists)/looksAtOnce), nil
}

// look returns what the list is like, which may be so old, and the points later than a time in milliseconds.
func (l *watched) look(s *Server, name string, interval time.Duration, since int64) (listView, []point, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) >= interval {
		l.ask(s, name)
	}
	i, _ := slices.BinarySearchFunc(l.history, since+1, func(p point, at int64) int { return int(p.At - at) })
	return l.view, slices.Clone(l.history[i:]), l.err
}

// ask asks the server how a list is. The answer is for all who look, so it does not end with the viewer who came first.
func (l *watched) ask(s *Server, name string) {
	ctx, cancel := context.WithTimeout(s.ctx, requestLife)
	defer cancel()
	var row survey.Row
	row, l.view, l.err = s.lookAt(ctx, name)
	l.at = time.Now()
	if l.err != nil {
		return
	}
	p := pointOf(&l.before, row)
	l.view.In, l.view.Out, l.view.Exact = p.In, p.Out, p.Exact
	l.history = append(l.history[max(0, len(l.history)-maxHistory+1):], p)
}

func (s *Server) lookAt(ctx context.Context, name string) (row survey.Row, v listView, err error) {
	nodes, err := s.watches.nodes.get(ctx, s.Client, s.Address)
	if err != nil {
		return row, v, err
	}
	rows, err := survey.Look(ctx, s.Client, []string{name}, survey.Options{})
	if err != nil {
		return row, v, err
	}
	row = survey.Row{Name: name, At: time.Now(), LookedAgo: -1, Slot: oneslot.KeysOf(name).Slot()}
	if len(rows) > 0 {
		row = rows[0]
	}
	v = listView{
		rowView: viewOf(row), Exists: len(rows) > 0, Blocked: s.blocked(ctx, name), At: nodes.of(row.Slot), Nodes: nodes.names,
		First: row.First, Last: row.Last, Head: row.Head, Tail: row.Tail,
	}
	if row.Queue != nil {
		v.Dead = idOf(oneslot.KeysOf(name).Prefix + "dead")
	}
	for p := range int(row.Parts) {
		slot := spread.SlotOf(name, p, int(row.Parts))
		v.Placed = append(v.Placed, part{slot, nodes.of(slot), nodes.movesTo(slot)})
	}
	return row, v, nil
}

// blocked returns how many clients wait on the server of the list, for whatever they wait, or -1 if it does not say.
func (s *Server) blocked(ctx context.Context, name string) int64 {
	var node redis.Cmdable = s.Client
	if cluster, ok := s.Client.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, name)
		if err != nil {
			return -1
		}
		node = master
	}
	text, _ := node.Info(ctx, "clients").Result()
	for line := range strings.Lines(text) {
		if digits, found := strings.CutPrefix(line, "blocked_clients:"); found {
			if n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}

// open returns a list. A plain list of that name is it, too, and what changes or checks it may take its elements in.
func open(client redis.UniversalClient, name string, options ...shardedlist.Option) (*shardedlist.ShardedList, error) {
	list, err := shardedlist.New(client, name, options...)
	if err != nil {
		return nil, fail(http.StatusBadRequest, err.Error())
	}
	return list, nil
}
