package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A process is a running worker.
type process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	mu    sync.Mutex // of input
	ended chan struct{}

	killed atomic.Int64 // when, by the clock of now
}

// launch starts a worker whose clock is that far ahead. The first line of its output is the time. launch calls hear with each later
// line, note with errors, and gone when the process has ended.
func launch(program string, ahead time.Duration, spec clientSpec, hear func(line []byte), note func(error), gone func()) (*process, error) {
	p := &process{cmd: exec.Command(program), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerEnv+"=1", "GOMAXPROCS=2", aheadEnv+"="+ahead.String())
	var err error
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard goes to the harness only
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	before := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(output)
		lines.Buffer(nil, 1<<20)
		lines.Split(wholeLines)
		if lines.Scan() { // not if it has been killed already
			var told int64
			if _, err := fmt.Sscanf(lines.Text(), "time %d", &told); err != nil {
				note(fmt.Errorf("a worker begins with %q", lines.Text()))
			}
			note(isAhead(time.Unix(0, told), ahead, before))
		}
		for lines.Scan() {
			hear(lines.Bytes())
		}
		_ = p.cmd.Wait()
		gone()
	}()
	p.send(order{Client: &spec})
	return p, nil
}

// wholeLines is a bufio.SplitFunc for lines. It drops a last line without a newline.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil
}

// send sends an order. It is lost if the process was killed.
func (p *process) send(o order) {
	line, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.input.Write(append(line, '\n'))
}

// kill ends the process as a crash would, and returns when all of its output has been heard.
func (p *process) kill() {
	p.killed.Store(now())
	_ = p.cmd.Process.Kill()
	<-p.ended
}
