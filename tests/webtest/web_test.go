package webtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/spread"
)

func newList(t *testing.T, client redis.UniversalClient, name string, values []any, options ...shardedlist.Option) *shardedlist.ShardedList {
	list, err := shardedlist.New(client, name, options...)
	require.NoError(t, err)
	_, err = list.RPush(t.Context(), values...)
	require.NoError(t, err)
	return list
}

func numbers(n int) []any {
	values := make([]any, n)
	for i := range values {
		values[i] = i
	}
	return values
}

// The length in both views is that of the list a moment ago, without loading the page again; and a list that is gone leaves.
func TestTheLengthIsLive(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	client := server.Client(t)
	list := newList(t, client, "jobs", numbers(1200), shardedlist.WithCapacity(512))
	newList(t, client, "other", numbers(1))
	b := open(t, serve(t, server))

	b.awaitText(`tr[data-id="jobs"]`, "1,200")
	_, err := list.RPush(t.Context(), numbers(34)...)
	require.NoError(t, err)
	b.awaitText(`tr[data-id="jobs"]`, "1,234")

	b.click(`tr[data-id="jobs"] a`)
	b.awaitText(".tiles", "1,234")
	b.await("document.querySelectorAll('.shard').length === 3")
	b.await("document.querySelectorAll('.chart canvas').length === 2")
	_, err = list.LPopCount(t.Context(), 1000)
	require.NoError(t, err)
	b.awaitText(".tiles", "234")
	b.await("document.querySelectorAll('.shard').length === 2")

	b.click(".crumbs a")
	b.awaitText(`tr[data-id="jobs"]`, "234")
	_, err = list.Del(t.Context())
	require.NoError(t, err)
	b.await(`document.querySelector('tr[data-id="other"]') && !document.querySelector('tr[data-id="jobs"]')`)
}

// A spread list has the colours of its nodes. While a slot moves, its part has two, and then the new one.
func TestAReshardingIsSeen(t *testing.T) {
	server := redistest.Start(t, redistest.Cluster)
	const name, parts = "events", 8
	list := newList(t, server.Client(t), name, numbers(2), shardedlist.WithParts(parts), shardedlist.WithCapacity(2))
	for range 19 {
		_, err := list.RPush(t.Context(), numbers(2)...)
		require.NoError(t, err)
	}
	b := open(t, serve(t, server)+"/#/list/"+name)
	b.await("document.querySelectorAll('.shard').length >= 20")
	nodes := eval[int](b, "new Set([...document.querySelectorAll('.shard')].map((e) => e.dataset.node)).size")
	assert.Equal(t, 3, nodes)

	part := "document.querySelectorAll('.part')[0].dataset"
	from := eval[string](b, part+".node")
	slot := spread.SlotOf(name, 0, parts)
	owner, err := server.SlotOwner(t.Context(), slot)
	require.NoError(t, err)
	seen := false
	require.NoError(t, server.MoveSlot(t.Context(), slot, (owner+1)%3, func(moved int) {
		if moved == 1 {
			b.await(part + ".to >= 0")
			b.awaitText(".nodes caption", "1 part moving")
			seen = true
		}
	}))
	assert.True(t, seen)
	b.await(fmt.Sprintf("%s.node !== %q && %s.to === '-1'", part, from, part))
	b.await(fmt.Sprintf("document.querySelectorAll('.shard')[0].dataset.node !== %q", from))
	b.expected = append(b.expected, "502") // while the nodes do not agree
}

func TestWithoutTheRightNothingCanBeDeleted(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	list := newList(t, server.Client(t), "jobs", numbers(3))
	b := open(t, serve(t, server)+"/#/list/jobs")
	b.expected = append(b.expected, "403")
	b.awaitText(".tiles", "3")
	assert.True(t, eval[bool](b, "document.querySelector('.changes').hidden"))
	assert.True(t, eval[bool](b, "document.querySelector('#mode').hidden"))

	status := eval[int](b, `fetch('/api/list?name=jobs').then((r) => r.json()).then(({ token }) => fetch('/api/delete?name=jobs', { method: 'POST',
		headers: { 'Content-Type': 'application/json', 'X-Shardedlist-Token': token }, body: '{"confirm":"jobs"}' })).then((r) => r.status)`)
	assert.Equal(t, 403, status)
	length, err := list.LLen(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 3, length)
}

// Who may delete a list has to type its name.
func TestWithTheRightAListCanBeDeleted(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	name := "jobs of \u202e"
	list := newList(t, server.Client(t), name, numbers(3))
	newList(t, server.Client(t), "jobs", numbers(3))
	b := open(t, serve(t, server, allowChanges))
	b.await("document.querySelectorAll('tbody a.name').length === 2")
	eval[chromedp.Void](b, `[...document.querySelectorAll('tbody a.name')].find((a) => a.innerText.includes('jobs of')).click()`)
	b.awaitText(".tiles", "3")
	b.click(`[data-change="delete"]`)
	b.awaitText("dialog", `"jobs of \u202e"`)
	b.do(chromedp.SendKeys(chromedp.CSS("#confirm"), `"jobs of`))
	assert.True(t, eval[bool](b, "document.querySelector('dialog [type=submit]').disabled"))
	b.do(chromedp.SendKeys(chromedp.CSS("#confirm"), ` \u202e"`))
	b.click("dialog [type=submit]")
	b.await("!document.querySelector('dialog').open")
	b.awaitText(".panel", "The list is empty")
	length, err := list.LLen(t.Context())
	require.NoError(t, err)
	assert.Zero(t, length)

	b.do(chromedp.Navigate(eval[string](b, "location.origin") + "/#/list/jobs"))
	b.awaitText("h1", "jobs")
	b.click(`[data-change="push"]`)
	b.do(chromedp.SendKeys(chromedp.CSS("dialog textarea"), "one\ntwo"), chromedp.SendKeys(chromedp.CSS("#confirm"), "jobs"))
	b.click("dialog [type=submit]")
	b.await("!document.querySelector('dialog').open")
	b.awaitText(".tiles", "5")
}

// Elements and names are text, whatever they are, and are seen.
func TestHostileElementsAreText(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	name := "<img src=x onerror=alert(1)><script>document.title='owned'</script>"
	newList(t, server.Client(t), name, []any{
		"<script>document.body.textContent = 'owned'</script><img src=x onerror='alert(1)'>",
		`{"html": "<b onclick=alert(1)>x</b>", "__proto__": {"polluted": 1}}`,
		"abc\u202edef\u0000\u001b[31m",
		"\xff\xfe\x00broken",
		strings.Repeat("{", 100_000),
		strings.Repeat("x", 10<<20),
	})
	b := open(t, serve(t, server))
	b.awaitText("tbody", "<script>")
	b.click("tbody a.name")
	b.awaitText("h1", "<img src=x onerror=alert(1)>")
	b.await("document.querySelectorAll('.element').length === 6")
	assert.Zero(t, eval[int](b, "document.querySelectorAll('main img, main script, main b, main [onerror], main [onclick]').length"))
	assert.False(t, eval[bool](b, "document.title === 'owned' || 'polluted' in {}"))
	text := func(i int) string {
		return eval[string](b, fmt.Sprintf("document.querySelectorAll('.element')[%d].innerText", i))
	}
	assert.Contains(t, text(0), "<script>document.body")
	assert.Contains(t, text(2), "abcU+202Edef␀␛[31m")
	assert.Contains(t, text(3), "ff fe 00 62 72 6f 6b 65 6e")
	assert.Contains(t, text(5), "10 MiB")
	assert.Less(t, len(text(5)), 5000)
	assert.Less(t, eval[int](b, "document.documentElement.scrollWidth"), 1281)

	for _, form := range []string{"text", "json", "hex"} {
		b.click(fmt.Sprintf("[data-form=%q]", form))
		b.await("document.querySelectorAll('.element').length === 6")
	}
	assert.Contains(t, text(0), "3c 73 63 72 69 70 74 3e")
	b.click(`.element:last-child .more`)
	b.await("document.querySelector('.element:last-child').innerText.includes('64 KiB')")
}

// JSON is laid out, and otherwise as it was pushed.
func TestJSONIsShownDigitForDigit(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	newList(t, server.Client(t), "jobs", []any{
		`{"id":12345678901234567890,"rate":1.0,"twice":1,"twice":2,"text":"a, b: {\"[\\","empty":[{},[]],"long":"` + strings.Repeat("x", 150) + `"}`,
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
		strings.Repeat("[", 2000) + strings.Repeat("]", 2000),
	})
	b := open(t, serve(t, server)+"/#/list/jobs")
	b.await("document.querySelectorAll('.element pre').length === 3")
	text := func(i int) string {
		return eval[string](b, fmt.Sprintf("document.querySelectorAll('.element pre')[%d].innerText", i))
	}
	assert.Equal(t, `{
  "id": 12345678901234567890,
  "rate": 1.0,
  "twice": 1,
  "twice": 2,
  "text": "a, b: {\"[\\",
  "empty": [
    {},
    []
  ],
  "long": "`+strings.Repeat("x", 150)+`"
}`, text(0))
	b.click(`[data-index="1"] .more`)
	b.await("!document.querySelector('[data-index=\"1\"] .more')")
	for i := 1; i <= 2; i++ {
		assert.Regexp(t, `^\[\n  \[\n    \[`, text(i))
	}
}

// The elements at the right end and around an index are those that the list has there.
func TestElementsAroundAnIndex(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	newList(t, server.Client(t), "jobs", numbers(5000))
	b := open(t, serve(t, server)+"/#/list/jobs")
	b.await("document.querySelector('.element[data-index=\"9\"] pre')?.innerText === '9'")
	b.click(`[data-place="right"]`)
	b.await("document.querySelector('.element[data-index=\"-1\"] pre')?.innerText === '4999'")
	b.do(chromedp.SetValue(chromedp.CSS("#index"), "2500"))
	b.click(`[data-place="around"]`)
	b.await("document.querySelector('.element.chosen[data-index=\"2500\"] pre')?.innerText === '2500'")
	b.click(".panel:last-child button")
	b.awaitText(".panel:last-child", "Sound: no fault was found.")
}

func TestInTheDark(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis)
	newList(t, server.Client(t), "dark:jobs", numbers(5))
	b := open(t, serve(t, server))
	b.awaitText("tbody", "dark:jobs")
	light := func() int {
		return eval[int](b, "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b)")
	}
	assert.Greater(t, light(), 600)
	b.dark()
	assert.Less(t, light(), 150)
}

// On a phone nothing is wider than the screen, and what can be touched is large enough.
func TestOnAPhone(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis)
	newList(t, server.Client(t), "phone:"+strings.Repeat("long", 40), []any{strings.Repeat("wide", 1000)})
	newList(t, server.Client(t), "phone:jobs", numbers(100_000))
	site := serve(t, server, allowChanges)
	b := open(t, site)
	b.size(360, 740, true)
	b.awaitText("tbody", "phone:jobs")
	b.fits()
	b.do(chromedp.Navigate(site + "/#/list/phone%3Ajobs"))
	b.awaitText(".tiles", "100,000")
	b.await("document.querySelectorAll('.element').length === 10")
	b.fits()
	b.do(chromedp.Navigate(site + "/#/list/phone%3A" + strings.Repeat("long", 40)))
	b.await("document.querySelectorAll('.element').length === 1")
	b.fits()
	b.click(`[data-change="trim"]`)
	b.fits()
}

func (b *tab) fits() {
	b.t.Helper()
	assert.LessOrEqual(b.t, eval[int](b, "document.documentElement.scrollWidth"), 360)
	assert.Zero(b.t, eval[int](b, "[...document.querySelectorAll('main button:not(.sort):not(.more), main input')].filter((e) => e.offsetParent && e.offsetHeight < 36).length"))
}

// Everything can be done without a mouse, and the focus stays where it is while rows change.
func TestByKeyboard(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	client := server.Client(t)
	for _, name := range []string{"a", "b", "queue:mail"} {
		newList(t, client, name, numbers(2))
	}
	b := open(t, serve(t, server))
	b.await("document.querySelectorAll('tbody tr').length === 3")
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("j"))
	focused := "document.activeElement.innerText"
	assert.Equal(t, "b", eval[string](b, focused))
	assert.NotEqual(t, "none", eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"))
	newList(t, client, "aa", numbers(2))
	b.await("document.querySelectorAll('tbody tr').length === 4")
	assert.Equal(t, "b", eval[string](b, focused))
	b.do(chromedp.KeyEvent("k"))
	assert.Equal(t, "aa", eval[string](b, focused))

	// As a keyboard does: the browser itself makes a character of the key, unless the page has prevented it. KeyEvent makes one in any case.
	_, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyDown", Key: "/", Text: "/"})
	require.NoError(t, err)
	b.await("document.activeElement.id === 'match'")
	require.Empty(t, eval[string](b, "document.activeElement.value"))
	b.do(chromedp.KeyEvent("mail"))
	b.await("document.querySelectorAll('tbody tr').length === 1")
	b.do(chromedp.KeyEvent("\u001b"), chromedp.KeyEvent("j"), chromedp.KeyEvent("\r"))
	b.awaitText("h1", "queue:mail")
	b.do(chromedp.KeyEvent("\u001b"))
	b.await("document.querySelector('#match')?.value === 'mail'")
	unlabelled := "[...document.querySelectorAll('button, input, a')].filter((e) => !(e.innerText || e.labels?.length || e.getAttribute('aria-label') || e.querySelector('img'))).length"
	assert.Zero(t, eval[int](b, unlabelled))
}

// The page says that the server is away, keeps what it shows, and goes on by itself.
func TestTheServerGoesAndComesBack(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	newList(t, server.Client(t), "jobs", numbers(7))
	site := serve(t, server)
	b := open(t, site)
	b.expected = append(b.expected, "502")
	for _, path := range []string{"/#/", "/#/list/jobs"} {
		b.do(chromedp.Navigate(site + path))
		b.awaitText("main", "7")
		b.awaitText("#status", "live")
		server.Kill()
		b.awaitText("#status", "away")
		b.awaitText("#away", "The server is away")
		assert.Contains(t, eval[string](b, "document.querySelector('main').innerText"), "jobs")
		server.Restart(t)
		newList(t, server.Client(t), "jobs", numbers(8))
		b.awaitText("#status", "live")
		b.awaitText("main", "8")
		_, err := server.Client(t).Del(t.Context(), "nothing").Result()
		require.NoError(t, err)
		server.Kill()
		server.Restart(t)
		newList(t, server.Client(t), "jobs", numbers(7))
	}
}
