package webtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/queue"
)

var screenshots = flag.String("screenshots", "", "the folder for the screenshots of the docs")

// The pictures of the docs are what the page shows of a cluster that is at work.
func TestScreenshots(t *testing.T) {
	server := redistest.Start(t, redistest.Cluster)
	client := server.Client(t)
	work(t, client)
	site := serve(t, server)

	b := open(t, site)
	b.size(1180, 560, false)
	b.awaitText("table.rows", "queue:mail")
	b.await("document.querySelectorAll('.spark polyline').length >= 6")
	b.watch(t, 12*time.Second)
	b.picture(t, "web-lists.png")

	b.do(chromedp.Navigate(site + "/#/list/events"))
	b.size(1180, 1120, false)
	b.awaitText("h1", "events")
	b.await("document.querySelectorAll('.element').length > 0")
	b.watch(t, 20*time.Second)
	b.picture(t, "web-spread.png")

	b.do(chromedp.Navigate(site + "/#/list/queue%3Amail"))
	b.awaitText("h1", "queue:mail")
	b.awaitText(".tiles", "Leased")
	b.dark()
	b.watch(t, 15*time.Second)
	b.picture(t, "web-queue-dark.png")

	b.do(chromedp.Navigate(site + "/#/"))
	b.size(390, 780, true)
	b.awaitText("table.rows", "queue:mail")
	b.picture(t, "web-phone.png")
}

// watch lets time pass, for the charts.
func (b *tab) watch(t *testing.T, d time.Duration) {
	if *screenshots == "" {
		d = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

func (b *tab) picture(t *testing.T, name string) {
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	assert.Greater(t, len(png), 5000, name)
	if *screenshots != "" {
		require.NoError(t, os.WriteFile(filepath.Join(*screenshots, name), png, 0o644))
	}
}

// work makes lists, and lets producers and consumers use them until the test ends.
func work(t *testing.T, client redis.UniversalClient) {
	ctx, cancel := context.WithCancel(t.Context())
	var done []chan struct{}
	every := func(d time.Duration, do func(i int) error) {
		end := make(chan struct{})
		done = append(done, end)
		go func() {
			defer close(end)
			for i := 0; ctx.Err() == nil; i++ {
				if err := do(i); err != nil && err != redis.Nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
			}
		}()
	}
	t.Cleanup(func() {
		cancel()
		for _, end := range done {
			<-end
		}
	})
	values := func(n int, format string) []any {
		v := make([]any, n)
		for i := range v {
			v[i] = fmt.Sprintf(format, i)
		}
		return v
	}
	event := `{"id": %d, "kind": "signup", "user": {"name": "Zoë", "plan": "team"}, "at": "2026-05-04T10:12:09Z"}`
	events, err := shardedlist.New(client, "events", shardedlist.WithParts(64), shardedlist.WithCapacity(64))
	require.NoError(t, err)
	_, err = events.RPush(ctx, values(5000, event)...)
	require.NoError(t, err)
	every(100*time.Millisecond, func(i int) error { _, err := events.RPush(ctx, values(20+i%40, event)...); return err })
	every(100*time.Millisecond, func(i int) error { _, err := events.LPopCount(ctx, 20+i/9%25); return err })

	for name, n := range map[string]int{"log:access": 180000, "log:errors": 1240, "queue:images": 38400, "queue:reports": 96, "recent:users": 1000} {
		list, err := shardedlist.New(client, name)
		require.NoError(t, err)
		_, err = list.RPush(ctx, values(n, "10.1.4.%d GET /index.html 200 51 ms")...)
		require.NoError(t, err)
		every(300*time.Millisecond, func(i int) error { _, err := list.RPush(ctx, values(1+n/2000+i%7, "10.1.4.%d GET /")...); return err })
		every(400*time.Millisecond, func(i int) error { _, err := list.LPopCount(ctx, 1+n/2000+i%11); return err })
	}
	require.NoError(t, client.RPush(ctx, "legacy:jobs", values(2600, "job %d")...).Err())
	require.NoError(t, client.Expire(ctx, "legacy:jobs", 3*time.Hour).Err())

	mail, err := queue.New(client, "queue:mail", queue.Attempts(2), queue.Backoff(func(int) time.Duration { return 3 * time.Second }))
	require.NoError(t, err)
	push := func(i int) error {
		_, err := mail.Push(ctx, fmt.Sprintf(`{"to": "user%d@example.com", "template": "welcome", "lang": "en"}`, i))
		return err
	}
	for i := range 900 {
		require.NoError(t, push(i))
	}
	for i := range 40 {
		_, err := mail.Push(ctx, fmt.Sprintf(`{"to": "late%d@example.com"}`, i), queue.In(time.Duration(10+i)*time.Minute))
		require.NoError(t, err)
	}
	every(25*time.Millisecond, push)
	end := make(chan struct{})
	done = append(done, end)
	go func() {
		defer close(end)
		_ = mail.Run(ctx, 6, func(ctx context.Context, job *queue.Job) error {
			select {
			case <-time.After(150 * time.Millisecond):
			case <-ctx.Done():
			}
			if job.ID[len(job.ID)-1] == 'a' {
				return fmt.Errorf("smtp: 451 greylisted")
			}
			return nil
		})
	}()
}
