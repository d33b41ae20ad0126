package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/queue"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(redistest.Main(m))
}

// site is a page that is served for a test.
type site struct {
	*httptest.Server
	t      *testing.T
	client redis.UniversalClient
	token  string
	feed   *feed
	server *Server
}

func newSite(t *testing.T, server *redistest.Server, options ...func(*Config)) *site {
	c := Config{Client: server.Client(t), Address: server.Addr()}
	for _, option := range options {
		option(&c)
	}
	s := New(c)
	t.Cleanup(s.Close)
	http := httptest.NewServer(s)
	t.Cleanup(http.Close)
	return &site{http, t, c.Client, s.token, s.feed, s}
}

func allowChanges(c *Config) { c.AllowChanges = true }

// send sends a request, which edit may change, and returns the status, the headers and the body.
func (s *site) send(method, path, body string, edit func(*http.Request)) (int, http.Header, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if edit != nil {
		edit(r)
	}
	response, err := s.Client().Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, response.Header, string(text)
}

func (s *site) withToken(r *http.Request) {
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Shardedlist-Token", s.token)
}

// get returns the reply to a request that succeeds.
func get[T any](s *site, path string) (result T) {
	s.t.Helper()
	status, _, body := s.send("GET", path, "", nil)
	require.Equal(s.t, http.StatusOK, status, body)
	require.NoError(s.t, json.Unmarshal([]byte(body), &result))
	return result
}

type listsReply struct {
	Rows   []rowView
	Total  int
	Survey surveyView
}

// awaitLists asks until a survey has ended that found so many lists.
func (s *site) awaitLists(query string, total int) (reply listsReply) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		reply = get[listsReply](s, "/api/lists"+query)
		return reply.Survey.Ended > 0 && reply.Total == total
	}, 20*time.Second, 50*time.Millisecond)
	return reply
}

func (s *site) list(name string, options ...shardedlist.Option) *shardedlist.ShardedList {
	s.t.Helper()
	list, err := shardedlist.New(s.client, name, options...)
	require.NoError(s.t, err)
	return list
}

func (s *site) push(name string, values ...any) {
	s.t.Helper()
	_, err := s.list(name).RPush(s.t.Context(), values...)
	require.NoError(s.t, err)
}

func TestEveryReplyForbidsWhatThePageDoesNotNeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t, redistest.Embedded), func(c *Config) { c.Password = "correct horse" })
	withPassword := func(r *http.Request) { r.SetBasicAuth("", "correct horse") }
	for _, path := range []string{"/", "/js/app.js", "/api/lists", "/nowhere", "/api/list?name=l"} {
		for _, edit := range []func(*http.Request){nil, withPassword} {
			_, h, _ := s.send("GET", path, "", edit)
			policy := h.Get("Content-Security-Policy")
			assert.Contains(t, policy, "default-src 'none'", path)
			assert.Contains(t, policy, "frame-ancestors 'none'", path)
			assert.NotContains(t, policy, "unsafe", path)
			assert.NotContains(t, policy, "http", path)
			assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
			assert.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"), path)
			assert.Empty(t, h.Get("Access-Control-Allow-Origin"), path)
		}
	}
	_, h, _ := s.send("GET", "/api/lists", "", withPassword)
	assert.Equal(t, "no-store", h.Get("Cache-Control"))
}

func TestForeignHostsAndOriginsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t, redistest.Embedded), func(c *Config) { c.Hosts = []string{"lists.example.com"} })
	own := strings.TrimPrefix(s.URL, "http://")
	for _, test := range []struct {
		host, origin, site, mode string
		want                     int
	}{
		{host: own, want: http.StatusOK},
		{host: "localhost:80", want: http.StatusOK},
		{host: "LISTS.example.com", want: http.StatusOK},
		{host: "[::1]:7380", want: http.StatusOK},
		{host: "[::1]", want: http.StatusOK},
		{host: "evil.example.com", want: http.StatusForbidden},
		{host: "127.0.0.1.evil.example.com:80", want: http.StatusForbidden},
		{host: "localhost.evil.example.com", want: http.StatusForbidden},
		{host: own, origin: s.URL, want: http.StatusOK},
		{host: own, origin: "http://evil.example.com", want: http.StatusForbidden},
		{host: own, origin: "null", want: http.StatusForbidden},
		{host: own, origin: "http://127.0.0.1:1", want: http.StatusForbidden},
		{host: own, site: "same-origin", want: http.StatusOK},
		{host: own, site: "cross-site", mode: "no-cors", want: http.StatusForbidden},
		{host: own, site: "same-site", mode: "cors", want: http.StatusForbidden},
		{host: own, site: "cross-site", mode: "navigate", want: http.StatusOK},
	} {
		status, _, body := s.send("GET", "/api/lists", "", func(r *http.Request) {
			r.Host = test.host
			for name, value := range map[string]string{"Origin": test.origin, "Sec-Fetch-Site": test.site, "Sec-Fetch-Mode": test.mode} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
		})
		assert.Equal(t, test.want, status, test)
		assert.Equal(t, test.want == http.StatusOK, strings.Contains(body, s.token), test)
	}
}

func TestEverythingNeedsThePassword(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t, redistest.Embedded), func(c *Config) { c.Password = "correct horse" })
	for _, path := range []string{"/", "/js/app.js", "/api/lists", "/api/list?name=l", "/api/elements?name=l&start=0&count=1", "/metrics"} {
		for _, password := range []string{"", "correct hors", "correct horse ", "Correct horse"} {
			status, h, body := s.send("GET", path, "", func(r *http.Request) { r.SetBasicAuth("correct horse", password) })
			assert.Equal(t, http.StatusUnauthorized, status, path)
			assert.Contains(t, h.Get("WWW-Authenticate"), "Basic")
			assert.NotContains(t, body, s.token)
		}
	}
	status, _, _ := s.send("GET", "/api/lists", "", func(r *http.Request) { r.SetBasicAuth("anybody", "correct horse") })
	assert.Equal(t, http.StatusOK, status)
}

// wishes are changes of a list that must be possible.
var wishes = map[string]string{
	"push": `"end":"right","values":["aGk="]`, "trim": `"start":1,"stop":-1`, "adopt": `"popped":""`, "restore": `"popped":""`, "delete": `"x":1`,
}

func TestAPageThatReadsRefusesChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Embedded))
	s.push("l", "a", "b")
	for change, wish := range wishes {
		status, _, body := s.send("POST", "/api/"+change+"?name=l", `{"confirm":"l",`+wish+`}`, s.withToken)
		assert.Equal(t, http.StatusForbidden, status, change)
		assert.Contains(t, body, "--allow-changes")
	}
	elements, err := s.list("l").LRange(t.Context(), 0, -1)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, elements)
	require.Len(t, wishes, len(changes))
}

func TestAChangeNeedsTheTokenAndTheNameOfTheList(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Embedded), allowChanges)
	s.push("l", "a", "b")
	refused := func(want int, path, body string, edit func(*http.Request)) {
		t.Helper()
		status, _, text := s.send("POST", path, body, edit)
		assert.Equal(t, want, status, text)
	}
	for change, wish := range wishes {
		path, right := "/api/"+change+"?name=l", `{"confirm":"l",`+wish+`}`
		refused(http.StatusForbidden, path, right, nil)
		refused(http.StatusForbidden, path, right, func(r *http.Request) { s.withToken(r); r.Header.Set("X-Shardedlist-Token", s.token[1:]) })
		refused(http.StatusUnsupportedMediaType, path, right, func(r *http.Request) { s.withToken(r); r.Header.Set("Content-Type", "text/plain") })
		refused(http.StatusForbidden, path, right, func(r *http.Request) { s.withToken(r); r.Header.Set("Origin", "http://evil.example.com") })
		refused(http.StatusConflict, path, `{"confirm":"L",`+wish+`}`, s.withToken)
		refused(http.StatusConflict, path, `{`+wish+`}`, s.withToken)
		refused(http.StatusBadRequest, path, `{"confirm":`, s.withToken)
		refused(http.StatusMethodNotAllowed, path, "", func(r *http.Request) { s.withToken(r); r.Method = "PUT" })
	}
	refused(http.StatusForbidden, "/api/check?name=l", "{}", nil)
	elements, err := s.list("l").LRange(t.Context(), 0, -1)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, elements)
}

// A change says all that it does: what is left out is no index.
func TestATrimNeedsBothIndices(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Embedded), allowChanges)
	s.push("l", "a", "b")
	for _, wish := range []string{``, `,"start":0`, `,"stop":0`, `,"start":null,"stop":0`, `,"start":"0","stop":0`} {
		status, _, body := s.send("POST", "/api/trim?name=l", `{"confirm":"l"`+wish+`}`, s.withToken)
		assert.Equal(t, http.StatusBadRequest, status, body)
	}
	length, err := s.list("l").LLen(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 2, length)
}

func TestChanges(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		s := newSite(t, server, allowChanges)
		name := "changes of \xff\u202e"
		do := func(change, wish string) string {
			t.Helper()
			confirm, err := json.Marshal(Display(name))
			require.NoError(t, err)
			status, _, body := s.send("POST", "/api/"+change+"?name="+idOf(name), `{"confirm":`+string(confirm)+`,`+wish+`}`, s.withToken)
			require.Equal(t, http.StatusOK, status, body)
			return body
		}
		do("push", `"end":"right","values":["`+base64.StdEncoding.EncodeToString([]byte("\x00\xff"))+`","Yg=="]`)
		do("push", `"end":"left","values":["YQ=="]`)
		elements, err := s.list(name).LRange(t.Context(), 0, -1)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "\x00\xff", "b"}, elements)

		do("restore", `"popped":"left"`)
		kind, err := s.client.Type(t.Context(), name).Result()
		require.NoError(t, err)
		require.Equal(t, "list", kind)
		do("adopt", `"popped":"left"`)
		do("trim", `"start":1,"stop":1`)
		elements, err = s.list(name).LRange(t.Context(), 0, -1)
		require.NoError(t, err)
		require.Equal(t, []string{"\x00\xff"}, elements)
		assert.JSONEq(t, `{"result":true}`, do("delete", `"x":0`))
		assert.JSONEq(t, `{"result":false}`, do("delete", `"x":0`))
	})
}

// What somebody has pushed comes as base64, and is cut.
func TestHostileElements(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Embedded))
	hostile := []string{"<script>alert(1)</script>", "\u202eevil", "\xff\xfe\x00", strings.Repeat("x", 10<<20), "\xffJ", ""}
	name := "<img src=x onerror=alert(1)>\xff\u202e"
	for _, element := range hostile {
		s.push(name, element)
	}
	_, h, body := s.send("GET", "/api/elements?start=0&count=10&name="+idOf(name), "", nil)
	assert.Equal(t, "application/json", h.Get("Content-Type"))
	for _, piece := range []string{"<", "\u202e", "\xff", "\ufffd"} {
		assert.NotContains(t, body, piece)
	}
	var reply struct{ Elements []element }
	require.NoError(t, json.Unmarshal([]byte(body), &reply))
	shown := 4 // the large one is the last that is read
	require.Len(t, reply.Elements, shown)
	for i, e := range reply.Elements {
		assert.Equal(t, len(hostile[i]), e.Size)
		assert.Equal(t, hostile[i][:min(len(hostile[i]), maxShown)], string(e.Data))
	}
	row := s.awaitLists("", 1).Rows[0]
	assert.Equal(t, `"<img src=x onerror=alert(1)>\xff\u202e"`, row.Name)
	assert.NotContains(t, row.ID, "<")
	assert.EqualValues(t, len(hostile), get[struct{ List listView }](s, "/api/list?name="+row.ID).List.Length)
}

func TestRepliesAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Embedded))
	for range 20 {
		s.push("large", bytes.Repeat([]byte("x"), 200<<10))
	}
	for i := range maxRows + 50 {
		s.push(fmt.Sprint("l", i), i)
	}
	type reply struct {
		Elements []element
		Cut      bool
	}
	several := get[reply](s, "/api/elements?name=large&start=0&count=20")
	assert.True(t, several.Cut)
	assert.Len(t, several.Elements, 6)
	alone := get[reply](s, "/api/elements?name=large&start=0&count=1")
	assert.Len(t, alone.Elements[0].Data, maxAlone)
	for _, query := range []string{"start=0&count=51", "start=0&count=0", "start=x&count=1", "start=0"} {
		status, _, _ := s.send("GET", "/api/elements?name=large&"+query, "", nil)
		assert.Equal(t, http.StatusBadRequest, status, query)
	}
	assert.Len(t, s.awaitLists("?limit=100000", maxRows+51).Rows, maxRows)
	status, _, _ := s.send("POST", "/api/push?name=l", strings.Repeat(" ", maxBody+1), s.withToken)
	assert.Equal(t, http.StatusForbidden, status) // it does not read on
}

// stuck is the connection of a viewer who does not receive his reply.
type stuck struct {
	http.ResponseWriter
	deadline time.Time
	writes   chan time.Time // the deadline of a write that has begun
	ended    <-chan struct{}
}

func (s *stuck) SetWriteDeadline(deadline time.Time) error {
	s.deadline = deadline
	return nil
}

func (s *stuck) Write(body []byte) (int, error) {
	s.writes <- s.deadline
	<-s.ended
	return len(body), nil
}

// A viewer who does not receive his reply holds no other one up, and not his connection for ever.
func TestAViewerWhoDoesNotReadHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Embedded))
	s.push("l", "a")
	s.awaitLists("", 1)
	const elements = "/api/elements?name=l&start=0&count=1"
	var viewers sync.WaitGroup
	defer viewers.Wait()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	ask := func(path string) {
		writes := make(chan time.Time)
		w := &stuck{ResponseWriter: httptest.NewRecorder(), writes: writes, ended: ctx.Done()}
		r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
		r.Host = "localhost"
		viewers.Go(func() { s.server.ServeHTTP(w, r) })
		assert.WithinDuration(t, time.Now().Add(writeLife), <-writes, writeLife/2, path)
	}
	for range maxReads + 1 {
		ask(elements)
	}
	for _, path := range []string{"/", "/nowhere", "/metrics", "/api/lists", "/api/list?name=l", "/api/list"} {
		ask(path)
	}
	get[any](s, elements)
}

func TestElementsAtBothEndsAndInTheMiddle(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		s := newSite(t, server)
		list := s.list("middle", shardedlist.WithCapacity(4))
		for i := range 30 {
			_, err := list.RPush(t.Context(), i)
			require.NoError(t, err)
		}
		at := func(name string, start, count int) (text string) {
			var reply = get[struct{ Elements []element }](s, fmt.Sprintf("/api/elements?name=%s&start=%d&count=%d", name, start, count))
			for _, e := range reply.Elements {
				text += fmt.Sprintf("%d:%s ", e.Index, e.Data)
			}
			return text
		}
		assert.Equal(t, "0:0 1:1 2:2 ", at("middle", 0, 3))
		assert.Equal(t, "14:14 15:15 ", at("middle", 14, 2))
		assert.Equal(t, "28:28 29:29 ", at("middle", 28, 5))
		assert.Equal(t, "-2:28 -1:29 ", at("middle", -2, 5))
		assert.Equal(t, "-30:0 -29:1 ", at("middle", -32, 4))
		assert.Empty(t, at("middle", 30, 5))
		assert.Empty(t, at("none", -5, 5))
	})
}

func TestListsAreSortedAndFound(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Embedded))
	for i, name := range []string{"b", "a", "queue:c", "queue:d"} {
		for range i + 1 {
			s.push(name, 0)
		}
	}
	names := func(query string, total int) (names []string) {
		for _, row := range s.awaitLists(query, total).Rows {
			names = append(names, row.Name)
		}
		return names
	}
	assert.Equal(t, []string{"a", "b", "queue:c", "queue:d"}, names("", 4))
	assert.Equal(t, []string{"queue:d", "queue:c", "b", "a"}, names("?down=1", 4))
	assert.Equal(t, []string{"b", "a", "queue:c", "queue:d"}, names("?sort=length", 4))
	assert.Equal(t, []string{"queue:d", "queue:c"}, names("?sort=length&down=1&limit=2", 4))
	assert.Equal(t, []string{"a", "b"}, names("?sort=length&down=1&limit=2&offset=2", 4))
	assert.Equal(t, []string{"queue:c", "queue:d"}, names("?match=queue:*", 2))
	assert.Equal(t, []string{"queue:c", "queue:d"}, names("?match=UEUE", 2))
	assert.Empty(t, names("?offset=4", 4))
}

func TestJobsOfAQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Embedded))
	q, err := queue.New(s.client, "mail")
	require.NoError(t, err)
	_, err = q.Push(t.Context(), "now")
	require.NoError(t, err)
	id, err := q.Push(t.Context(), "later", queue.In(time.Hour))
	require.NoError(t, err)

	view := get[struct{ List listView }](s, "/api/list?name=mail").List
	require.NotNil(t, view.Queue)
	assert.EqualValues(t, 1, view.Queue.Waiting)
	assert.EqualValues(t, 1, view.Queue.Delayed)
	type reply struct{ Elements []element }
	waiting := get[reply](s, "/api/elements?name=mail&start=0&count=5").Elements
	require.Len(t, waiting, 1)
	assert.Equal(t, "now", string(waiting[0].Data))
	delayed := get[reply](s, "/api/jobs?name=mail&state=delayed").Elements
	require.Len(t, delayed, 1)
	assert.Equal(t, "later", string(delayed[0].Data))
	assert.Equal(t, id, delayed[0].Job.ID)
	assert.InDelta(t, time.Now().Add(time.Hour).UnixMilli(), delayed[0].Job.Due, 1e5)
	assert.Empty(t, get[reply](s, "/api/jobs?name=mail&state=leased").Elements)
	status, _, _ := s.send("GET", "/api/jobs?name=mail&state=waiting", "", nil)
	assert.Equal(t, http.StatusBadRequest, status)
}

func TestCheckNamesFaults(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Redis))
	list := s.list("l2", shardedlist.WithCapacity(1))
	_, err := list.RPush(t.Context(), 1, 2, 3)
	require.NoError(t, err)
	check := func(name string) (faults []string) {
		status, _, body := s.send("POST", "/api/check?name="+name, "{}", s.withToken)
		require.Equal(t, http.StatusOK, status, body)
		var reply struct{ Faults []string }
		require.NoError(t, json.Unmarshal([]byte(body), &reply))
		return reply.Faults
	}
	assert.Empty(t, check("l2"))
	keys, err := s.client.Keys(t.Context(), "{l2}:#*:1").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.NoError(t, s.client.Del(t.Context(), keys[0]).Err())
	assert.NotEmpty(t, check("l2"))
	status, _, body := s.send("POST", "/api/check?name=none", "{}", s.withToken)
	assert.Equal(t, http.StatusNotFound, status)
	assert.JSONEq(t, `{"error":"there is no list \"none\""}`, body)
}

// A check that nobody waits for any more ends, so that it holds up no other.
func TestACheckEndsWithItsLastViewer(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Embedded))
	checks := &s.server.checks
	checks.turn <- struct{}{} // as if another one ran
	waiting := func(name string, viewers int) bool {
		checks.mu.Lock()
		defer checks.mu.Unlock()
		c := checks.running[name]
		return c == nil && viewers == 0 || c != nil && c.viewers == viewers
	}
	first, leave := context.WithCancel(t.Context())
	second, leaveToo := context.WithCancel(t.Context())
	var viewers sync.WaitGroup
	for i, ctx := range []context.Context{first, second} {
		r := httptest.NewRequestWithContext(ctx, "POST", "/api/check?name=l", strings.NewReader("{}"))
		r.Host = "localhost"
		s.withToken(r)
		viewers.Go(func() { s.server.ServeHTTP(httptest.NewRecorder(), r) })
		require.Eventually(t, func() bool { return waiting("l", i+1) }, 10*time.Second, time.Millisecond)
	}
	checks.mu.Lock()
	c := checks.running["l"]
	checks.mu.Unlock()
	leave()
	require.Eventually(t, func() bool { return waiting("l", 1) }, 10*time.Second, time.Millisecond)
	leaveToo()
	viewers.Wait()
	<-c.done
	assert.True(t, waiting("l", 0))
	<-checks.turn
	status, _, _ := s.send("POST", "/api/check?name=none", "{}", s.withToken)
	assert.Equal(t, http.StatusNotFound, status)
}

// A viewer who leaves takes the look at a list, which others share, not along.
func TestALookDoesNotEndWithTheViewerWhoCameFirst(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		s := newSite(t, server)
		s.push("looked-at", 1, 2)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		r := httptest.NewRequestWithContext(ctx, "GET", "/api/list?name=looked-at", nil)
		r.Host = "localhost"
		s.server.ServeHTTP(httptest.NewRecorder(), r)
		assert.EqualValues(t, 2, get[struct{ List listView }](s, "/api/list?name=looked-at").List.Length)
	})
}

// Whoever looks at a list changes no key: newcomers stay at the plain key, and a plain list is one afterwards.
func TestAPageThatReadsChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Redis))
	ctx := t.Context()
	values := make([]any, 2000)
	for i := range values {
		values[i] = i
	}
	plain := func(name string, count int) { require.NoError(t, s.client.RPush(ctx, name, values[:count]...).Err()) }
	lists := map[string]string{ // and their first elements
		"sharded": "0", "spread": "0", "plain": "0", "adopted": "0", "restored": "0", "newcomers": "x", "none": "",
	}
	s.push("sharded", values[:10]...)
	_, err := s.list("spread", shardedlist.WithParts(3)).RPush(ctx, values[:10]...)
	require.NoError(t, err)
	plain("plain", 10)
	plain("adopted", 2000)
	_, err = s.list("adopted").RPush(ctx, "x")
	require.NoError(t, err)
	s.push("restored", values[:10]...)
	require.NoError(t, s.list("restored").Restore(ctx, nil))
	_, err = s.list("newcomers").RPush(ctx, "x")
	require.NoError(t, err)
	plain("newcomers", 3)

	dump := func() map[string]string {
		keys, err := s.client.Keys(ctx, "*").Result()
		require.NoError(t, err)
		dumps := map[string]string{}
		for _, key := range keys {
			dumps[key], err = s.client.Dump(ctx, key).Result()
			require.NoError(t, err)
		}
		return dumps
	}
	before := dump()
	require.Greater(t, len(before), len(lists))
	s.awaitLists("", len(lists)-1)
	for name, first := range lists {
		get[any](s, "/api/list?name="+name)
		get[any](s, "/api/jobs?state=delayed&name="+name)
		found := get[struct{ Elements []element }](s, "/api/elements?start=0&count=1&name="+name).Elements
		if first == "" {
			assert.Empty(t, found)
		} else if assert.Len(t, found, 1, name) {
			assert.Equal(t, first, string(found[0].Data), name)
		}
		_, _, _ = s.send("POST", "/api/check?name="+name, "{}", s.withToken)
	}
	s.send("GET", "/metrics", "", nil)
	assert.Equal(t, before, dump())
}

// An error is shown as it is, though there are names in quotes in it.
func TestAnErrorIsNotQuoted(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Embedded), allowChanges)
	_, err := s.list("spread", shardedlist.WithParts(2)).RPush(t.Context(), "a")
	require.NoError(t, err)
	_, _, body := s.send("POST", "/api/adopt?name=spread", `{"confirm":"spread"}`, s.withToken)
	assert.Contains(t, body, `{"error":"shardedlist: adopt \"spread\": `)
	for text, want := range map[string]string{`a"b\c`: `a"b\c`, `"a"`: `"\"a\""`, "a\xff": `"a\xff"`, "a\u202e": `"a\u202e"`, "é": "é", "a ": `"a "`,
		" a": `" a"`, "a  b": `"a  b"`, "a b": "a b", "a\ufe0f": `"a\ufe0f"`, "a\u3164": `"a\u3164"`, "a\ufffd": `"a\ufffd"`} {
		assert.Equal(t, want, Display(text))
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Embedded))
	s.push("l", 1, 2, 3)
	s.awaitLists("", 1)
	status, h, body := s.send("GET", "/metrics", "", nil)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, h.Get("Content-Type"), "text/plain")
	assert.Contains(t, body, `shardedlist_list_length{list="l"} 3`)
}

// A scrape returns how the lists are now, also the first one, and the first after a pause. While the server is away, it fails.
func TestAScrapeIsFresh(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	s := newSite(t, server)
	scrape := func() (status int, body string) {
		status, _, body = s.send("GET", "/metrics", "", nil)
		return status, body
	}
	s.push("l", 1)
	status, body := scrape()
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, `shardedlist_list_length{list="l"} 1`)

	f := s.feed
	require.Eventually(t, func() bool { return !f.state().Running }, 10*time.Second, time.Millisecond)
	f.mu.Lock()
	f.viewed, f.ended = time.Now().Add(-time.Minute), time.Now().Add(-time.Minute)
	f.mu.Unlock()
	s.push("l", 2)
	status, body = scrape()
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, `shardedlist_list_length{list="l"} 2`)

	server.Kill()
	require.Eventually(t, func() bool {
		status, body = scrape()
		return status == http.StatusServiceUnavailable
	}, 20*time.Second, 50*time.Millisecond)
	assert.Contains(t, body, "connection refused")
	server.Restart(t)
	require.Eventually(t, func() bool { status, _ = scrape(); return status == http.StatusOK }, 20*time.Second, 50*time.Millisecond)
}

func TestBehindSentinel(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t, redistest.Sentinel))
	s.push("sentinel:l", 1, 2, 3)
	assert.EqualValues(t, 3, s.awaitLists("?match=sentinel:*", 1).Rows[0].Length)
}

// sent returns how many commands and scripts the server has carried out.
func sent(t *testing.T, client redis.UniversalClient) (scans, scripts int) {
	t.Helper()
	text, err := client.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	calls := func(command string) (n int) {
		if m := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(text); m != nil {
			_, err := fmt.Sscan(m[1], &n)
			require.NoError(t, err)
		}
		return n
	}
	return calls("scan"), int(redistest.Calls(text))
}

// Fifty viewers who ask all the time cost the server what one does, and nobody costs nothing.
func TestViewersShareOneSurvey(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Start(t, redistest.Redis))
	for i := range 30 {
		s.push(fmt.Sprint("l", i), i)
	}
	scansBefore, scriptsBefore := sent(t, s.client)
	const viewers, each, period = 50, 10, 3 * time.Second
	start := time.Now()
	var asking sync.WaitGroup
	for range viewers {
		asking.Go(func() {
			for asked := 0; asked < each || time.Since(start) < period; asked++ {
				for _, path := range []string{"/api/lists", "/api/list?name=l7"} {
					r, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
					response, err := s.Client().Do(r)
					if !assert.NoError(t, err) {
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			}
		})
	}
	asking.Wait()
	seconds := int(time.Since(start).Seconds()) + 1
	surveys := seconds/2 + 2
	scans, scripts := sent(t, s.client)
	assert.Zero(t, scansBefore, "nobody has looked")
	assert.Positive(t, scans-scansBefore)
	assert.LessOrEqual(t, scans-scansBefore, 3*surveys, "three filters, a survey every two seconds")
	assert.LessOrEqual(t, scripts-scriptsBefore, 30*2*surveys+2*seconds, "two looks at each list every two seconds, and one at one list each second")
}

// Whatever a file of the page names is there, and nothing comes from elsewhere.
func TestThePageIsComplete(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t, redistest.Embedded))
	reference := regexp.MustCompile(`(?:src|href)="(/[^"#]+)"|from '([^']+)'`)
	seen := map[string]bool{}
	var visit func(path string)
	visit = func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		status, h, body := s.send("GET", path, "", nil)
		require.Equal(t, http.StatusOK, status, path)
		require.NotEmpty(t, h.Get("Content-Type"), path)
		if !strings.HasPrefix(path, "/vendor/") {
			assert.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|style="|onclick=`, body, path)
		}
		for _, m := range reference.FindAllStringSubmatch(body, -1) {
			visit(strings.Replace(m[1]+m[2], "./", "/js/", 1))
		}
		status, _, _ = s.send("GET", path, "", func(r *http.Request) { r.Header.Set("If-None-Match", h.Get("ETag")) })
		assert.Equal(t, http.StatusNotModified, status, path)
	}
	visit("/")
	assert.Greater(t, len(seen), 10)
	assert.Contains(t, seen, "/vendor/uplot/uPlot.esm.js")
	status, _, license := s.send("GET", "/vendor/uplot/LICENSE", "", nil)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, license, "MIT")
}

// A page whose server is away says so, and has the lists again when it is back.
func TestTheServerGoesAndComesBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	s := newSite(t, server)
	s.push("l", 1)
	s.awaitLists("", 1)
	server.Kill()
	require.Eventually(t, func() bool { return get[listsReply](s, "/api/lists").Survey.Error != "" }, 20*time.Second, 50*time.Millisecond)
	server.Restart(t)
	s.push("m", 1)
	require.Eventually(t, func() bool {
		reply := get[listsReply](s, "/api/lists")
		return reply.Survey.Error == "" && len(reply.Rows) == 1 && reply.Rows[0].Name == "m"
	}, 20*time.Second, 50*time.Millisecond)
}

// While a master is away, the lists of the others show, and each of them by itself.
func TestOneMasterIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	for _, node := range server.Nodes() {
		require.NoError(t, node.Client(t).ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	s := newSite(t, server, func(c *Config) {
		c.Client = server.Client(t, func(o *redis.UniversalOptions) { o.MaxRetries, o.DialerRetries = -1, 1 })
	})
	names := map[int]string{} // a list of each master
	for i := 0; len(names) < 3; i++ {
		name := fmt.Sprint("l", i)
		owner, err := server.SlotOwner(t.Context(), int(s.client.ClusterKeySlot(t.Context(), name).Val()))
		require.NoError(t, err)
		names[owner] = name
	}
	for _, name := range names {
		s.push(name, 1)
	}
	server.Nodes()[2].Kill()
	require.Eventually(t, func() bool {
		reply := get[listsReply](s, "/api/lists")
		return reply.Survey.Error != "" && reply.Total == 2
	}, 20*time.Second, 50*time.Millisecond)
	for owner, name := range names {
		status, _, body := s.send("GET", "/api/list?name="+name, "", nil)
		assert.Equal(t, http.StatusOK, status, body)
		assert.Equal(t, owner == 2, strings.Contains(body, `"fault":`), body)
	}
}

// A master that hangs does not hold up those who look at lists of the others, whether or not the client asks it who the masters are.
func TestOneMasterHangs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		asked bool
		nodes int // that the page names
	}{{"another is asked who the masters are", false, 2}, {"it is asked who the masters are", true, 3}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Cluster)
			name := "l"
			owner, err := server.SlotOwner(t.Context(), oneslot.KeysOf(name).Slot())
			require.NoError(t, err)
			hangs, answers := server.Nodes()[(owner+1)%3], server.Nodes()[(owner+2)%3].Client(t)
			var paused atomic.Bool
			cluster := redis.NewClusterClient(&redis.ClusterOptions{
				ReadTimeout: time.Hour, MaxRetries: -1,
				ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
					if paused.Load() && test.asked {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return answers.ClusterSlots(ctx).Result()
				},
			})
			t.Cleanup(func() { assert.NoError(t, cluster.Close()) })
			s := newSite(t, server, func(c *Config) { c.Client = cluster })
			s.push(name, 1)
			get[any](s, "/api/list?name="+name)
			paused.Store(true)
			hangs.Pause()
			defer hangs.Resume()
			s.server.watches.nodes.mu.Lock()
			s.server.watches.nodes.at = time.Time{} // as if a second had passed
			s.server.watches.nodes.mu.Unlock()
			s.server.watches.mu.Lock()
			clear(s.server.watches.lists)
			s.server.watches.mu.Unlock()
			view := get[struct{ List listView }](s, "/api/list?name="+name).List
			assert.EqualValues(t, 1, view.Length)
			assert.Len(t, view.Nodes, test.nodes)
		})
	}
}

// A server that hangs is noticed, though it takes connections.
func TestTheServerHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	s := newSite(t, server, func(c *Config) {
		c.Client = server.Client(t, func(o *redis.UniversalOptions) { o.MaxRetries, o.DialerRetries = -1, 1 })
	})
	s.push("l", 1)
	s.awaitLists("", 1)
	server.Pause()
	defer server.Resume()
	require.Eventually(t, func() bool { return get[listsReply](s, "/api/lists").Survey.Error != "" }, 10*time.Second, 50*time.Millisecond)
}

// Close ends a survey that is under way. That nothing is left of it is checked by TestMain.
func TestCloseEndsTheSurvey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Embedded)
	s := New(Config{Client: server.Client(t)})
	s.feed.view()
	s.Close()
	assert.Error(t, s.ctx.Err())
}
