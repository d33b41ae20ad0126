package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/queue"
)

const (
	maxElements = 50       // that a viewer gets at once
	maxShown    = 4 << 10  // bytes of an element, one of several
	maxAlone    = 64 << 10 // bytes of an element that was asked for alone
	maxRead     = 1 << 20  // bytes that the server sends before the rest is left out
)

// element is an element as the page shows it.
type element struct {
	Index int64  `json:"index"`
	Size  int    `json:"size"` // of all of it
	Data  []byte `json:"data"` // as base64: the first bytes
	Job   *job   `json:"job,omitempty"`
}

// job is what an envelope says. The data of its element is the payload.
type job struct {
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
	Pushed  int64  `json:"pushed,omitempty"`
	Due     int64  `json:"due,omitempty"` // when it is due, or its lease ends
	Error   string `json:"error,omitempty"`
}

// show returns an element, cut to a number of bytes.
func show(index int64, value string, most int) element {
	e := element{Index: index, Size: len(value)}
	if j, err := queue.Parse(value); err == nil {
		e.Job, e.Size = jobOf(j), len(j.Payload)
		value = string(j.Payload)
	}
	e.Data = []byte(value[:min(len(value), most)])
	return e
}

func jobOf(j *queue.Job) *job {
	result := &job{ID: j.ID, Attempt: j.Attempt, Error: Display(j.LastError)}
	if !j.PushedAt.IsZero() {
		result.Pushed = j.PushedAt.UnixMilli()
	}
	if !j.Due.IsZero() {
		result.Due = j.Due.UnixMilli()
	}
	return result
}

// read replies with what work returns.
func (s *Server) read(w http.ResponseWriter, r *http.Request, work func(ctx context.Context) (any, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), requestLife)
	defer cancel()
	value, err := s.readInTurn(ctx, work)
	reply(w, value, err)
}

// readInTurn runs work with a client, one of the few viewers who read at a time. The turn ends before the reply is written: who does not
// receive his own holds nobody up.
func (s *Server) readInTurn(ctx context.Context, work func(ctx context.Context) (any, error)) (any, error) {
	select {
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
		return work(ctx)
	case <-ctx.Done():
		return nil, fail(http.StatusServiceUnavailable, "too many viewers read at once")
	}
}

// elements replies with some elements from an index on, which may be negative, as those of LINDEX.
//
// They are read one by one, as nobody knows how large they are: a reply with fifty might be of gigabytes. So they are not what the list held
// at one moment.
func (s *Server) elements(w http.ResponseWriter, r *http.Request) {
	s.read(w, r, func(ctx context.Context) (any, error) {
		query := r.URL.Query()
		start, err := strconv.ParseInt(query.Get("start"), 10, 64)
		count, countErr := strconv.Atoi(query.Get("count"))
		if err = errors.Join(err, countErr); err != nil || count < 1 || count > maxElements {
			return nil, fail(http.StatusBadRequest, "want an index, and a number from 1 to "+strconv.Itoa(maxElements))
		}
		found, cut, err := readElements(ctx, s.Client, query.Get("name"), start, count)
		return map[string]any{"elements": found, "cut": cut, "now": time.Now().UnixMilli()}, err
	})
}

// readElements returns up to count elements, and whether some were left out because others are so large. It changes nothing: newcomers
// stay at the plain key, and are not among the elements.
func readElements(ctx context.Context, client redis.UniversalClient, name string, start int64, count int) (found []element, cut bool, err error) {
	list, err := shardedlist.New(client, name)
	if err != nil {
		return nil, false, fail(http.StatusBadRequest, err.Error())
	}
	found = []element{}
	most, read := maxShown, 0
	if count == 1 {
		most = maxAlone
	}
	for i := range int64(count) {
		if start < 0 && start+i >= 0 { // the next one would be the first
			break
		}
		if read > maxRead {
			return found, true, nil
		}
		value, err := list.LIndex(ctx, start+i)
		if err == redis.Nil && start < 0 && len(found) == 0 {
			continue // the list is shorter
		}
		if err == redis.Nil {
			break
		}
		if err != nil {
			return found, false, err
		}
		read += len(value)
		found = append(found, show(start+i, value, most))
	}
	return found, false, nil
}

// jobs replies with the next jobs of a queue that are delayed, or leased.
func (s *Server) jobs(w http.ResponseWriter, r *http.Request) {
	s.read(w, r, func(ctx context.Context) (any, error) {
		name, state := r.URL.Query().Get("name"), r.URL.Query().Get("state")
		if name == "" || state != string(queue.Delayed) && state != string(queue.Leased) {
			return nil, fail(http.StatusBadRequest, "want the name of a queue, and delayed or leased")
		}
		found, cut, err := s.jobsIn(ctx, oneslot.KeysOf(name).Prefix+"queue:", queue.State(state))
		return map[string]any{"elements": found, "cut": cut, "now": time.Now().UnixMilli()}, err
	})
}

// maxJobs is how many delayed or leased jobs a viewer gets.
const maxJobs = 20

// jobsIn returns the next jobs in a state, and whether some were left out because they are large. Queue.Peek would return them however
// large they are.
func (s *Server) jobsIn(ctx context.Context, prefix string, state queue.State) (found []element, cut bool, err error) {
	found = []element{}
	times := s.Client.ZRangeByScoreWithScores(ctx, prefix+"times", &redis.ZRangeBy{Min: "(0", Max: "+inf", Count: maxJobs})
	if state == queue.Leased {
		times = s.Client.ZRevRangeByScoreWithScores(ctx, prefix+"times", &redis.ZRangeBy{Min: "-inf", Max: "(0", Count: maxJobs})
	}
	members, err := times.Result()
	read := 0
	for i, member := range members {
		id, _ := member.Member.(string)
		id = id[:min(len(id), idSize)]
		if read > maxRead {
			return found, true, nil
		}
		envelope, err := s.Client.HGet(ctx, prefix+"jobs", id).Result()
		if err == redis.Nil {
			continue // it has ended meanwhile
		}
		if err != nil {
			return found, false, err
		}
		read += len(envelope)
		e := show(int64(i), envelope, maxShown)
		if e.Job != nil {
			e.Job.Due = int64(max(member.Score, -member.Score))
			found = append(found, e)
		}
	}
	return found, false, err
}

// idSize is the size of the id of a job, with which its member of the sorted set of times begins.
const idSize = 16
