package main

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

// barDelay keeps what is quickly done from flashing a bar.
const barDelay = 300 * time.Millisecond

// progress is a bar on the standard error, if that is a terminal, for what takes long.
type progress struct {
	bar     *progressbar.ProgressBar
	started time.Time
	early   atomic.Int64 // done before the bar was shown
}

// progress starts a bar that is full at total, or that only counts if total is unknown.
func (a *app) progress(what string, total int64, inBytes bool) *progress {
	return newProgress(a.stderr, isTerminal(a.stderr), what, total, inBytes)
}

// outputProgress is progress for elements printed: with no bar if standard output is a terminal, where the two would mix.
func (a *app) outputProgress(what string, total int64) *progress {
	return newProgress(a.stderr, isTerminal(a.stderr) && !isTerminal(a.stdout), what, total, false)
}

func newProgress(stderr io.Writer, visible bool, what string, total int64, inBytes bool) *progress {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(stderr),
		progressbar.OptionSetVisibility(visible),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionShowBytes(inBytes),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionSetRenderBlankState(false),
		progressbar.OptionSetSpinnerChangeInterval(0), // or it keeps a goroutine
		progressbar.OptionClearOnFinish(),
	}
	if !inBytes {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString("elements"))
	}
	return &progress{bar: progressbar.NewOptions64(total, options...), started: time.Now()}
}

const unknown = -1 // a total

// add counts n more. It is safe for concurrent use.
func (p *progress) add(n int) {
	p.early.Add(int64(n))
	if time.Since(p.started) > barDelay {
		_ = p.bar.Add64(p.early.Swap(0))
	}
}

// done wipes the bar away.
func (p *progress) done() {
	_ = p.bar.Exit()
	_ = p.bar.Clear()
}
