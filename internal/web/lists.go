package web

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/survey"
)

// maxRows is how many lists a viewer gets at once.
const maxRows = 200

// rowView is what the page shows of a list among others.
type rowView struct {
	ID        string      `json:"id"`
	Name      string      `json:"name"`
	Form      survey.Form `json:"form"`
	Fault     string      `json:"fault,omitempty"`
	Length    int64       `json:"length"`
	Shards    int64       `json:"shards"`
	Capacity  int64       `json:"capacity"`
	Bytes     int64       `json:"bytes"`
	Slot      int         `json:"slot"`
	Parts     int64       `json:"parts"`
	Node      string      `json:"node"`
	TTL       int64       `json:"ttl_ms"` // 0 for none
	Backlog   int64       `json:"backlog"`
	Newcomers int64       `json:"newcomers"`
	Unswept   int64       `json:"unswept"`
	Strays    int64       `json:"strays"`
	Armed     bool        `json:"armed"`
	Looked    int64       `json:"looked_ms"` // how long ago a consumer did, or -1
	Queue     *queueView  `json:"queue,omitempty"`
	In        *float64    `json:"in"`
	Out       *float64    `json:"out"`
	Exact     bool        `json:"exact"`
	Trend     []int64     `json:"trend,omitempty"`
}

type queueView struct {
	Waiting int64 `json:"waiting"`
	Delayed int64 `json:"delayed"`
	Leased  int64 `json:"leased"`
	Dead    int64 `json:"dead"`
	Done    int64 `json:"done"`
	Failed  int64 `json:"failed"`
	Buried  int64 `json:"buried"`
	Paused  bool  `json:"paused"`
	Waits   bool  `json:"waits"`
	Oldest  int64 `json:"oldest,omitempty"`
}

func viewOf(row survey.Row) rowView {
	v := rowView{
		ID: idOf(row.Name), Name: Display(row.Name), Form: row.Form,
		Length: row.Length, Shards: row.Shards, Capacity: row.Capacity, Bytes: row.Bytes, Slot: row.Slot, Parts: row.Parts, Node: row.Node,
		TTL: row.TTL.Milliseconds(), Backlog: row.Backlog, Newcomers: row.Newcomers, Unswept: row.Unswept, Strays: row.Strays,
		Armed: row.Armed, Looked: -1,
	}
	if row.Err != nil {
		v.Fault = Display(row.Err.Error())
	}
	if row.LookedAgo >= 0 {
		v.Looked = row.LookedAgo.Milliseconds()
	}
	if q := row.Queue; q != nil {
		v.Queue = &queueView{
			Waiting: row.Length, Delayed: q.Delayed, Leased: q.Leased, Dead: q.Dead,
			Done: q.Done, Failed: q.Failed, Buried: q.Buried, Paused: q.Paused, Waits: q.Waits,
		}
		if !q.Oldest.IsZero() {
			v.Queue.Oldest = q.Oldest.UnixMilli()
		}
	}
	return v
}

// surveyView is how far the survey is.
type surveyView struct {
	Lists   int    `json:"lists"`
	Running bool   `json:"running"`
	Found   int    `json:"found"`   // by the one that runs
	Ended   int64  `json:"ended"`   // when the last one did, or 0
	Took    int64  `json:"took_ms"` // how long that took
	Error   string `json:"error,omitempty"`
}

func (f *feed) state() surveyView {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := surveyView{Lists: len(f.lists), Running: f.running, Found: f.found, Took: f.took.Milliseconds()}
	if !f.ended.IsZero() {
		v.Ended = f.ended.UnixMilli()
	}
	if err := cmp.Or(f.failed, f.away); err != nil {
		v.Error = Display(err.Error())
	}
	return v
}

// lists replies with some lists in the order that the viewer wants. Nothing is sent to the server for it.
func (s *Server) lists(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	o := order{match: query.Get("match"), by: query.Get("sort"), down: query.Get("down") == "1"}
	s.feed.view()
	found, total := s.feed.page(o, number(query, "offset", 0, 1<<30), number(query, "limit", 100, maxRows))
	rows := make([]rowView, len(found))
	for i, l := range found {
		rows[i] = viewOf(l.row)
		last := l.last()
		rows[i].In, rows[i].Out, rows[i].Exact = last.In, last.Out, last.Exact
		for _, p := range l.trend {
			rows[i].Trend = append(rows[i].Trend, p.Length)
		}
	}
	reply(w, map[string]any{
		"rows": rows, "total": total, "survey": s.feed.state(),
		"server": s.Address, "changes": s.AllowChanges, "token": s.token, "now": time.Now().UnixMilli(),
	}, nil)
}

// number returns a number of a query, from 0 to most.
func number(query url.Values, name string, otherwise, most int) int {
	n, err := strconv.Atoi(query.Get(name))
	if err != nil {
		return otherwise
	}
	return max(0, min(n, most))
}

// matcher returns what tells whether a viewer looks for a name: a part of it, or a pattern as for KEYS.
func matcher(match string) func(name string) bool {
	if strings.ContainsAny(match, `*?[`) {
		return shardedlist.Match(match)
	}
	match = strings.ToLower(match)
	return func(name string) bool { return strings.Contains(strings.ToLower(name), match) }
}
