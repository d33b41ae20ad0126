package webtest

import (
	"context"
	"fmt"
	"iter"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/web"
)

func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(redistest.Main(m).Run())
}

// patience is how long a test waits for what the page is to show.
const patience = 30 * time.Second

// program returns the path of Chromium. Without it, tests are skipped, or fail where servers must not be missing either.
func program(t *testing.T) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("SHARDEDLIST_REQUIRE_SERVERS") != "" {
		t.Fatal("Chromium is not installed")
	}
	t.Skip("Chromium is not installed")
	return ""
}

// serve serves the page for a server.
func serve(t *testing.T, server *redistest.Server, options ...func(*web.Config)) string {
	config := web.Config{Client: server.Client(t), Address: server.Addr()}
	for _, option := range options {
		option(&config)
	}
	s := web.New(config)
	t.Cleanup(s.Close)
	site := httptest.NewServer(s)
	t.Cleanup(site.Close)
	return site.URL
}

func allowChanges(c *web.Config) { c.AllowChanges = true }

// tab is a tab of a browser. What it complains about fails the test.
type tab struct {
	t        *testing.T
	ctx      context.Context
	expected []string // complaints that are right
}

// open opens an address in a browser of its own.
func open(t *testing.T, url string) *tab {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program(t)), chromedp.NoSandbox,
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("font-render-hinting", "none"), chromedp.WindowSize(1280, 900))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b := &tab{t: t, ctx: ctx}
	console := chromedp.Console(ctx)
	require.NoError(t, chromedp.Do(ctx)) // the browser starts
	var listening sync.WaitGroup
	listening.Go(func() { b.listen(console) })
	t.Cleanup(func() {
		cancel()
		listening.Wait()
		stop()
	})
	b.do(chromedp.Navigate(url))
	return b
}

// listen fails the test if the browser has anything to complain about.
func (b *tab) listen(console iter.Seq2[chromedp.ConsoleMessage, error]) {
	for message, err := range console {
		if err != nil {
			return // the browser is closed
		}
		harmless := message.Type == chromedp.ConsoleLog || message.Type == chromedp.ConsoleInfo || message.Type == chromedp.ConsoleDebug
		right := slices.ContainsFunc(b.expected, func(text string) bool { return strings.Contains(message.Text, text) })
		if !harmless && !right {
			assert.Fail(b.t, "the browser complains", "%s: %s %s", message.Type, message.Text, message.URL)
		}
	}
}

// do runs actions, which have to be done in time.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// eval returns what an expression is in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return result
}

// await waits until an expression is true in the page. (chromedp.Poll compiles it in the page, whose policy forbids that.)
func (b *tab) await(expression string) {
	b.t.Helper()
	for start := time.Now(); !eval[bool](b, "Boolean("+expression+")"); {
		if time.Since(start) > patience {
			require.Fail(b.t, "the page never shows it", "%s\n%s", expression, eval[string](b, "document.body.innerText"))
		}
		require.NoError(b.t, chromedp.Do(b.ctx, chromedp.Sleep(50*time.Millisecond)))
	}
}

// awaitText waits until an element has a text.
func (b *tab) awaitText(selector, text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.innerText.includes(%q))", selector, text))
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

func (b *tab) size(width, height int64, mobile bool) {
	b.t.Helper()
	var options []chromedp.EmulateViewportOption
	if mobile {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	b.do(chromedp.EmulateViewport(width, height, options...))
}

// dark makes the person at the screen prefer the dark.
func (b *tab) dark() {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	require.NoError(b.t, err)
}
