package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/spf13/cobra"
)

const (
	// A batch of elements ends at either limit.
	batchValues = 1000
	batchBytes  = 1 << 20

	maxElement = 512 << 20 // the longest string that Redis accepts
)

func (a *app) addNullFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&a.null, "null", "0", false, "elements end with a NUL byte instead of a newline")
}

func (a *app) delimiter() byte {
	if a.null {
		return 0
	}
	return '\n'
}

// batches yields the elements of r, which the delimiter separates. The last element may lack it. A batch holds at least one
// element, and no more than the reader has ready or the limits allow.
func batches(r io.Reader, delimiter byte, most int) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		input := bufio.NewReaderSize(r, 64<<10)
		var batch []string
		size := 0
		for {
			element, err := readElement(input, delimiter)
			if err == nil {
				batch, size = append(batch, element), size+len(element)
			}
			if len(batch) > 0 && (err != nil || len(batch) == most || size >= batchBytes || input.Buffered() == 0) {
				if !yield(batch, nil) {
					return
				}
				batch, size = nil, 0
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

func readElement(input *bufio.Reader, delimiter byte) (string, error) {
	var start []byte // beginning of an element longer than the buffer
	for {
		part, err := input.ReadSlice(delimiter)
		switch {
		case err == nil:
			return string(start) + string(part[:len(part)-1]), nil
		case err == io.EOF && len(start)+len(part) > 0:
			return string(start) + string(part), nil
		case err != bufio.ErrBufferFull:
			return "", err
		}
		if start = append(start, part...); len(start) > maxElement {
			return "", fmt.Errorf("element exceeds %d MiB, the limit of Redis", maxElement>>20)
		}
	}
}

// interruptible is a reader whose Read returns once ctx is done.
type interruptible struct {
	ctx context.Context
	io.Reader
}

func (r interruptible) Read(p []byte) (n int, err error) {
	done := make(chan struct{})
	var readN int
	var readErr error
	go func() {
		defer close(done)
		readN, readErr = r.Reader.Read(p)
	}()
	select {
	case <-done:
		return readN, readErr
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

// remaining returns the number of bytes left to read, or unknown.
func remaining(r io.Reader) int64 {
	file, ok := r.(*os.File)
	if !ok {
		return unknown
	}
	stat, err := file.Stat()
	if err != nil || !stat.Mode().IsRegular() {
		return unknown
	}
	at, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return unknown
	}
	return stat.Size() - at
}
