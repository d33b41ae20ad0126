package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// limited is a full disk, or a pipe that its reader closes, once so many bytes were written.
type limited struct {
	bytes.Buffer
	room int
	err  error
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(l.room, len(p))
	l.room -= n
	l.Buffer.Write(p[:n])
	if n < len(p) {
		return n, l.err
	}
	return n, nil
}

// What a command popped and could not print is in the list again, in its order, and nothing is there twice.
func TestWhatCannotBePrintedIsPutBack(t *testing.T) {
	t.Parallel()
	const before = "aa\nbb\ncc\ndd\nee\n"
	for _, test := range []struct {
		args    string
		room    int
		printed string
		after   string
		lost    string
	}{
		{"lpop l", 0, "", before, "1"},
		{"rpop l", 2, "ee", before, "1"},
		{"lpop l 3", 0, "", before, "3"},
		{"lpop l 3", 4, "aa\nb", "bb\ncc\ndd\nee\n", "2"},
		{"lpop l 99", 6, "aa\nbb\n", "cc\ndd\nee\n", "3"},
		{"rpop l 2", 1, "e", before, "2"},
		{"rpop l 99", 3, "ee\n", "aa\nbb\ncc\ndd\n", "4"},
		{"blpop l 1", 1, "a", before, "1"},
		{"brpop l", 0, "", before, "1"},
		{"blpop {l}no l 1", 0, "", before, "1"},
		{"BRPOP {l}no l 1", 0, "", before, "1"},
		{"lmpop 2 {l}no l left count 3", 0, "", before, "3"},
		{"lmpop 1 l RIGHT", 2, "{l", before, "1"},
		{"blmpop 1 2 {l}no l right count 2", 0, "", before, "2"},
		{"lpop l 3 --json", 4, `["aa`, before, "3"},
		{"lpop l 3 --no-raw", 9, "1) \"aa\"\n2", "bb\ncc\ndd\nee\n", "2"},
	} {
		for _, cause := range []error{syscall.ENOSPC, syscall.EPIPE} {
			t.Run(test.args+"/"+cause.Error(), func(t *testing.T) {
				t.Parallel()
				server := miniredis.RunT(t)
				run(t, server, strings.NewReader(before), "rpush", "{l}x")
				args := strings.Fields(strings.ReplaceAll(" "+test.args+" ", " l ", " {l}x "))
				out := &limited{room: test.room, err: cause}
				var stderr bytes.Buffer
				code := execute(t.Context(), append(args, "--redis", server.Addr()), nil, out, &stderr)
				if errors.Is(cause, syscall.EPIPE) {
					assert.Equal(t, exitBrokenPipe, code)
					assert.Empty(t, stderr.String())
				} else {
					assert.Equal(t, exitFailure, code)
					assert.Equal(t, "shardedlist: "+test.lost+" elements were put back\nshardedlist: no space left on device\n", stderr.String())
				}
				assert.Equal(t, test.printed, out.String())
				assert.Equal(t, test.after, run(t, server, nil, "lrange", "{l}x", "0", "-1").out)
			})
		}
	}
}

// A page of elements that was printed stays popped.
func TestOnlyTheLastPageIsPutBack(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	run(t, server, strings.NewReader(strings.Repeat("x\n", 3*page)), "rpush", "l")
	var stderr bytes.Buffer
	code := execute(t.Context(), []string{"lpop", "l", "30000", "--redis", server.Addr()}, nil, &limited{room: 2*page + 2, err: syscall.ENOSPC}, &stderr)
	assert.Equal(t, exitFailure, code)
	assert.Equal(t, "shardedlist: 9999 elements were put back\nshardedlist: no space left on device\n", stderr.String())
	assert.Equal(t, "19999\n", run(t, server, nil, "llen", "l").out)
}

func TestAFullDiskAndAClosedPipe(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	reader, pipe, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	defer pipe.Close()
	for code, stdout := range map[int]io.Writer{exitFailure: full, exitBrokenPipe: pipe} {
		server := miniredis.RunT(t)
		run(t, server, nil, "rpush", "l", "a", "b", "c")
		for _, args := range []string{"lpop l 2", "rpop l", "blpop l 1", "lmpop 1 l right count 3"} {
			got := execute(t.Context(), append(strings.Fields(args), "--redis", server.Addr()), nil, stdout, io.Discard)
			assert.Equal(t, code, got, args)
			assert.Equal(t, "a\nb\nc\n", run(t, server, nil, "lrange", "l", "0", "-1").out, args)
		}
	}
}

// If the server has gone as well, the elements are lost, and the program says how many.
func TestWhatCannotBePutBackIsSaid(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	run(t, server, nil, "rpush", "l", "a", "b", "c")
	var stderr bytes.Buffer
	code := execute(t.Context(), []string{"lpop", "l", "2", "--redis", server.Addr()}, nil, dying{server}, &stderr)
	assert.Equal(t, exitBrokenPipe, code)
	assert.Regexp(t, `^shardedlist: 2 elements were taken, not printed, and not put back: lpush "l": `, stderr.String())
}

// dying is an output that fails together with the server.
type dying struct{ server *miniredis.Miniredis }

func (d dying) Write([]byte) (int, error) {
	d.server.Close()
	return 0, syscall.EPIPE
}
