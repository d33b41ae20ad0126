package web

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// The page answers at once, and takes little of the server, however many look at however many lists.
// docs/web.md has the figures.
func TestTenThousandListsAndFiftyViewers(t *testing.T) {
	lists, viewers, period := 300, 10, 3*time.Second
	if redistest.Long() {
		lists, viewers, period = 10_000, 50, 30*time.Second
	} else {
		t.Parallel()
	}
	s := newSite(t, redistest.Start(t, redistest.Redis))
	for i := range lists {
		s.push(fmt.Sprintf("queue:%05d", i), slices.Repeat([]any{"an element of some forty bytes, as jobs are"}, 1+i%60*20)...)
	}
	idle := cpuOf(t, s.client)
	start := time.Now()
	require.Eventually(t, func() bool {
		reply := get[listsReply](s, "/api/lists")
		return reply.Survey.Ended > 0 && reply.Total == lists
	}, 10*time.Minute, time.Second)
	first, firstCPU := time.Since(start), cpuOf(t, s.client)-idle

	late := lateness(t)
	before, start := cpuOf(t, s.client), time.Now()
	answers := s.look(viewers, lists, period)
	share := (cpuOf(t, s.client) - before) / time.Since(start).Seconds()
	slices.Sort(answers)
	at := func(q float64) time.Duration { return answers[int(q*float64(len(answers)-1))] }
	t.Logf("%d lists, %d viewers, %v: %d answers, half within %v, 99 %% within %v, all within %v; %.2f %% of a core of the server",
		lists, viewers, period, len(answers), at(0.5), at(0.99), at(1), 100*share)
	t.Logf("timers of this machine were late by up to %v meanwhile", late())
	t.Logf("the first survey took %v, and %.2f s of a core", first, firstCPU)
	require.NotEmpty(t, answers)
	if redistest.Long() {
		assert.Less(t, at(0.99), time.Second)
		assert.Less(t, share, 0.05, "on a busy machine; docs/web.md has the figure of an idle one")
	}
}

// lateness returns what tells by how much timers have been late since: answers cannot be quicker than the machine.
func lateness(t *testing.T) func() time.Duration {
	ctx, cancel := context.WithCancel(t.Context())
	worst := make(chan time.Duration)
	go func() {
		var late time.Duration
		for start := time.Now(); pauseFor(ctx, 5*time.Millisecond); start = time.Now() {
			late = max(late, time.Since(start)-5*time.Millisecond)
		}
		worst <- late
	}()
	return func() time.Duration {
		cancel()
		return <-worst
	}
}

// look lets viewers look for some time: two thirds at pages of all lists, a third at one list each. It returns how long the answers took.
func (s *site) look(viewers, lists int, period time.Duration) (answers []time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), period)
	defer cancel()
	took := make(chan []time.Duration)
	for viewer := range viewers {
		go func() {
			path, pause := fmt.Sprintf("/api/lists?sort=length&down=1&offset=%d", rand.IntN(10)*100), 2*time.Second
			if viewer%3 == 0 {
				path, pause = fmt.Sprintf("/api/list?name=queue:%05d", rand.IntN(lists)), time.Second
			}
			var mine []time.Duration
			for pauseFor(ctx, time.Duration(rand.Int64N(int64(2*pause)))) {
				start := time.Now()
				if s.asks(ctx, path) {
					mine = append(mine, time.Since(start))
				}
			}
			took <- mine
		}()
	}
	for range viewers {
		answers = append(answers, <-took...)
	}
	return answers
}

// asks asks for a path, and reports whether there was an answer.
func (s *site) asks(ctx context.Context, path string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return false
	}
	response, err := s.Client().Do(r)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK
}

// cpuOf returns how many seconds of a core the server has used.
func cpuOf(t *testing.T, client redis.UniversalClient) (seconds float64) {
	t.Helper()
	text, err := client.Info(t.Context(), "cpu").Result()
	require.NoError(t, err)
	found := regexp.MustCompile(`used_cpu_(?:sys|user):([\d.]+)`).FindAllStringSubmatch(text, -1)
	require.Len(t, found, 2)
	for _, m := range found {
		part, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		seconds += part
	}
	return seconds
}
