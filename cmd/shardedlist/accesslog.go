package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// accessLog generates a web server's log in the combined format. It is the same on every run.
type accessLog struct {
	left     int // lines
	rand     *rand.Rand
	visitors *rand.Zipf
	pages    *rand.Zipf
	now      time.Time
	pending  []byte
}

func newAccessLog(lines int) io.Reader {
	r := rand.New(rand.NewPCG(20, 26))
	return &accessLog{
		left:     lines,
		rand:     r,
		visitors: rand.NewZipf(r, 1.1, 20, 50_000),
		pages:    rand.NewZipf(r, 1.3, 3, 5_000),
		now:      time.Date(2026, time.March, 2, 6, 25, 1, 0, time.UTC),
	}
}

func (l *accessLog) Read(p []byte) (int, error) {
	for len(l.pending) < len(p) && l.left > 0 {
		l.pending = l.appendLine(l.pending)
		l.left--
	}
	if len(l.pending) == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.pending)
	l.pending = append(l.pending[:0], l.pending[n:]...)
	return n, nil
}

func (l *accessLog) appendLine(b []byte) []byte {
	l.now = l.now.Add(time.Duration(l.rand.ExpFloat64() * float64(150*time.Millisecond)))
	visitor := l.visitors.Uint64() * 2654435761 // spreads the addresses
	request, referer, size := l.request()
	b = fmt.Appendf(b, "%d.%d.%d.%d - ", 11+visitor%180, visitor>>8&255, visitor>>16&255, 1+visitor>>24&127)
	b = append(b, pick(l.rand, "-", "-", "-", "-", "-", "-", "ada", "grace", "edsger")...)
	b = l.now.AppendFormat(b, " [02/Jan/2006:15:04:05 -0700] ")
	b = fmt.Appendf(b, "%q ", request)
	switch chance := l.rand.IntN(100); {
	case chance < 84:
		b = fmt.Appendf(b, "200 %d", size)
	case chance < 93:
		b = append(b, "304 0"...)
	case chance < 96:
		b = append(b, "301 178"...)
	case chance < 99:
		b = append(b, "404 153"...)
	default:
		b = append(b, "502 157"...)
	}
	return fmt.Appendf(b, " %q %q\n", referer, agents[visitor%uint64(len(agents))])
}

func (l *accessLog) request() (request, referer string, size int) {
	const site = "https://shop.example.com"
	page := fmt.Sprintf("/products/%d", 1+l.pages.Uint64())
	size = 200 + int(l.rand.ExpFloat64()*8000)
	switch l.rand.IntN(10) {
	case 0:
		return "GET / HTTP/2.0", pick(l.rand, "-", "https://www.google.com/", "https://duckduckgo.com/"), size
	case 1, 2, 3:
		return "GET " + page + " HTTP/2.0", site + "/", size
	case 4, 5:
		return "GET /assets/" + pick(l.rand, "app.4f1d.js", "site.91ac.css", "logo.svg") + " HTTP/2.0", site + page, size * 4
	case 6, 7:
		return "GET /img" + page + ".webp HTTP/2.0", site + page, size * 9
	case 8:
		return fmt.Sprintf("GET /search?q=%s&page=%d HTTP/1.1", pick(l.rand, "lamp", "oak+table", "caf%C3%A9", "rug"),
			1+l.rand.IntN(9)), site + "/", size
	}
	return "POST /cart HTTP/1.1", site + page, size / 8
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

var agents = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/133.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.3 Safari/605.1.15",
	"Mozilla/5.0 (X11; Linux x86_64; rv:135.0) Gecko/20100101 Firefox/135.0",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_3 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
	"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	"curl/8.12.1",
}
