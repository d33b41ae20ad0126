package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// format returns how replies are printed: as the flags say, else for people on a terminal, and for programs elsewhere.
func (a *app) format() format {
	switch {
	case a.json:
		return asJSON
	case a.noRaw, isTerminal(a.stdout) && !a.raw && !a.null:
		return pretty
	}
	return raw
}

func (a *app) checkFormat() error {
	chosen := 0
	for _, flag := range []bool{a.json, a.noRaw, a.raw || a.null} {
		if flag {
			chosen++
		}
	}
	if chosen > 1 {
		return usagef("--json, --raw, --no-raw and --null exclude each other")
	}
	return nil
}

// printReply prints a reply. If there is no element in it, other programs get no line, and the exit code is 1.
func (a *app) printReply(r reply) error {
	if r.kind == null {
		return a.nothing()
	}
	if a.format() == raw && r.kind == array && len(r.parts) == 0 {
		return nil
	}
	delimiter := a.delimiter()
	if r.kind == integer || r.kind == status {
		delimiter = '\n' // it is no element
	}
	out := bufio.NewWriter(a.stdout)
	a.format().print(out, r, delimiter)
	return out.Flush()
}

// printInteger prints a number.
func (a *app) printInteger(n int64) error {
	return a.printReply(reply{kind: integer, text: strconv.FormatInt(n, 10)})
}

// nothing prints that there is no element, but not to programs, and returns the error for exit code 1.
func (a *app) nothing() error {
	switch a.format() {
	case pretty:
		fmt.Fprintln(a.stdout, "(nil)")
	case asJSON:
		fmt.Fprintln(a.stdout, "null")
	}
	return errNothing
}

// printer prints the elements of one reply as they come, so that it may be longer than memory.
type printer struct {
	*bufio.Writer
	format    format
	delimiter byte
	width     int // of the numbers

	sink     *counter
	buffered int64   // bytes that were given to the Writer
	ends     []int64 // where those of each element end
	count    int
}

// counter counts the bytes that were written.
type counter struct {
	io.Writer
	written int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.written += int64(n)
	return n, err
}

// printer returns a printer of about so many elements.
func (a *app) printer(elements int64) *printer {
	sink := &counter{Writer: a.stdout}
	return &printer{
		Writer: bufio.NewWriterSize(sink, 64<<10), format: a.format(), delimiter: a.delimiter(),
		width: len(strconv.FormatInt(max(elements, 0), 10)), sink: sink,
	}
}

// print prints elements. They may be in the buffer until Flush.
func (p *printer) print(values ...string) error {
	for _, value := range values {
		var n int
		var err error
		switch p.format {
		case pretty:
			n, err = fmt.Fprintf(p, "%*d) %s\n", p.width, p.count+1, quoted(value))
		case asJSON:
			n, err = p.WriteString("[,"[min(p.count, 1):][:1] + jsonString(value))
		default:
			n, _ = p.WriteString(value)
			n, err = n+1, p.WriteByte(p.delimiter) // also returns an error of WriteString
		}
		if err != nil {
			return err
		}
		p.buffered += int64(n)
		p.ends = append(p.ends, p.buffered)
		p.count++
	}
	return nil
}

// end prints what ends the reply.
func (p *printer) end() error {
	switch {
	case p.format == pretty && p.count == 0:
		_, _ = p.WriteString("(empty array)\n")
	case p.format == asJSON && p.count == 0:
		_, _ = p.WriteString("[]\n")
	case p.format == asJSON:
		_, _ = p.WriteString("]\n")
	}
	return p.Flush()
}

// printed returns how many of the elements since the last call were written as a whole.
func (p *printer) printed() (n int) {
	for _, end := range p.ends {
		if end <= p.sink.written {
			n++
		}
	}
	p.ends = p.ends[:0]
	return n
}
