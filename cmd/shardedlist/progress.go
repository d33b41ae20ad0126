package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	barDelay  = 300 * time.Millisecond // a shorter operation shows no bar
	lineDelay = time.Second            // a shorter operation prints no line
)

// progress shows on standard error how far an operation is: as a bar if that is a terminal, else, for the demo, as lines.
type progress struct {
	what    string
	total   int64 // bytes if inBytes, else elements; or unknown
	inBytes bool
	started time.Time

	elements, bytes atomic.Int64 // done

	bar   *progressbar.ProgressBar
	early atomic.Int64 // done before the bar appears

	stopLines func()
}

const unknown = -1 // a total

// progress starts a bar on a terminal.
func (a *app) progress(what string, total int64, inBytes bool) *progress {
	return newProgress(a.stderr, isTerminal(a.stderr), what, total, inBytes)
}

// outputProgress starts a bar for elements that are printed, unless they go to a terminal too.
func (a *app) outputProgress(what string, total int64) *progress {
	return newProgress(a.stderr, isTerminal(a.stderr) && !isTerminal(a.stdout), what, total, false)
}

// lineProgress starts a bar on a terminal, and lines elsewhere.
func (a *app) lineProgress(what string, total int64, inBytes bool) *progress {
	p := a.progress(what, total, inBytes)
	if !isTerminal(a.stderr) {
		p.startLines(a.stderr)
	}
	return p
}

func newProgress(stderr io.Writer, visible bool, what string, total int64, inBytes bool) *progress {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(stderr),
		progressbar.OptionSetVisibility(visible),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionShowBytes(inBytes),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionSetRenderBlankState(false),
		progressbar.OptionSetSpinnerChangeInterval(0), // or the bar starts a goroutine
		progressbar.OptionClearOnFinish(),
	}
	if !inBytes {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString("elements"))
	}
	if _, ok := terminalWidth(stderr); ok {
		options = append(options, progressbar.OptionFullWidth())
	} else {
		options = append(options, progressbar.OptionSetWidth(30)) // fits defaultWidth with the rest of the line
	}
	p := &progress{
		what:      what,
		total:     total,
		inBytes:   inBytes,
		started:   time.Now(),
		bar:       progressbar.NewOptions64(total, options...),
		stopLines: func() {},
	}
	p.bar.StartWithoutRender() // or its rate leaves out the time before it appears
	return p
}

// add counts elements and their bytes. It is safe for concurrent use.
func (p *progress) add(elements, bytes int) {
	p.elements.Add(int64(elements))
	p.bytes.Add(int64(bytes))
	if p.inBytes {
		p.early.Add(int64(bytes))
	} else {
		p.early.Add(int64(elements))
	}
	if time.Since(p.started) > barDelay {
		_ = p.bar.Add64(p.early.Swap(0))
	}
}

// outOf sets the total, once the bar may show: it draws the bar.
func (p *progress) outOf(total int64) {
	if time.Since(p.started) > barDelay {
		p.bar.ChangeMax64(max(total, 1))
	}
}

// done clears the bar or ends the lines.
func (p *progress) done() {
	p.stopLines()
	_ = p.bar.Exit()
	_ = p.bar.Clear()
}

// startLines prints a line every second, and after ten seconds each time that another tenth has passed.
func (p *progress) startLines(w io.Writer) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	p.stopLines = func() {
		close(stop)
		<-stopped
	}
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(max(lineDelay, time.Since(p.started)/10)):
				fmt.Fprintln(w, p.line())
			}
		}
	}()
}

// line is, for example, "streaming: 120,000 elements (60 %) in 4 s".
func (p *progress) line() string {
	percent := ""
	if p.total > 0 {
		done := p.elements.Load()
		if p.inBytes {
			done = p.bytes.Load()
		}
		percent = fmt.Sprintf(" (%d %%)", min(100*done/p.total, 100))
	}
	return fmt.Sprintf("%s: %s elements%s in %.0f s", p.what, thousands(p.elements.Load()), percent, time.Since(p.started).Seconds())
}
