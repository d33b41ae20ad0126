package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
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
	redistest.LongOnly(t)
	for _, kind := range redistest.Kinds(everyKind...) {
		for _, layout := range everyLayout {
			t.Run(string(kind)+"/"+layout, func(t *testing.T) {
				t.Parallel()
				testPutBack(t, redistest.Shared(t, kind), layout)
			})
		}
	}
}

func testPutBack(t *testing.T, server *redistest.Server, layout string) {
	const before = "aa\nbb\ncc\ndd\nee\n"
	for i, test := range []struct {
		args    string
		room    int
		printed string
		after   string
		lost    string
		one     bool // in one slot only
	}{
		{"lpop l", 0, "", before, "1", false},
		{"rpop l", 2, "ee", before, "1", false},
		{"lpop l 3", 0, "", before, "3", false},
		{"lpop l 3", 4, "aa\nb", "bb\ncc\ndd\nee\n", "2", false},
		{"lpop l 99", 0, "", before, "5", false},
		{"lpop l 99", 6, "aa\nbb\n", "cc\ndd\nee\n", "3", false},
		{"rpop l 2", 1, "e", before, "2", false},
		{"rpop l 99", 3, "ee\n", "aa\nbb\ncc\ndd\n", "4", false},
		{"blpop l 1", 1, "a", before, "1", false},
		{"brpop l", 0, "", before, "1", false},
		{"blpop no l 1", 0, "", before, "1", true},
		{"BRPOP no l 1", 0, "", before, "1", true},
		{"lmpop 2 no l left count 3", 0, "", before, "3", true},
		{"lmpop 1 l RIGHT", 2, "{p", before, "1", true},
		{"lmpop 1 l RIGHT count 5", 2, "{p", before, "5", true},
		{"blmpop 1 2 no l right count 2", 0, "", before, "2", true},
		{"lpop l 3 --json", 4, `["aa`, before, "3", false},
		{"lpop l 3 --no-raw", 9, "1) \"aa\"\n2", "bb\ncc\ndd\nee\n", "2", false},
	} {
		if test.one && layout == spreadLayout {
			continue
		}
		for n, cause := range []error{syscall.ENOSPC, syscall.EPIPE} {
			if n != i%2 && !redistest.Long() {
				continue
			}
			name := fmt.Sprintf("{put-back-%d-%v}%s", i, cause == syscall.EPIPE, layout)
			store(t, server.Client(t), layout, name, strings.Fields(before)...)
			args := strings.Fields(test.args)
			for i, word := range args {
				args[i] = cmp.Or(map[string]string{"l": name, "no": name + "-no"}[word], word)
			}
			out := &limited{room: test.room, err: cause}
			var stderr bytes.Buffer
			code := execute(t.Context(), append(args, "--redis", server.URL()), nil, out, &stderr)
			if errors.Is(cause, syscall.EPIPE) {
				assert.Equal(t, exitBrokenPipe, code, test.args)
				assert.Empty(t, stderr.String(), test.args)
			} else {
				assert.Equal(t, exitFailure, code, test.args)
				assert.Equal(t, "shardedlist: elements put back: "+test.lost+"\nshardedlist: no space left on device\n", stderr.String(), test.args)
			}
			assert.Equal(t, test.printed, out.String(), test.args)
			list, err := shardedlist.New(server.Client(t), name)
			require.NoError(t, err)
			elements, err := list.LRange(t.Context(), 0, -1)
			require.NoError(t, err)
			assert.Equal(t, strings.Fields(test.after), elements, test.args)
			require.NoError(t, list.Check(t.Context()), test.args)
			info, err := list.Info(t.Context())
			require.NoError(t, err)
			assert.Equal(t, layout == spreadLayout, info.Parts > 0, test.args)
		}
	}
}

// The command line works on all of these.
var (
	everyKind   = []redistest.Kind{redistest.Embedded, redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Sentinel}
	everyLayout = []string{"sharded", backlogLayout, spreadLayout}
)

const (
	backlogLayout = "backlog" // a plain list, which the library takes over
	spreadLayout  = "spread"
)

// store makes a list of small shards.
func store(t *testing.T, rdb redis.UniversalClient, layout, name string, elements ...string) {
	t.Helper()
	if layout == backlogLayout {
		require.NoError(t, rdb.RPush(t.Context(), name, elements).Err())
		return
	}
	options := []shardedlist.Option{shardedlist.WithCapacity(2)}
	if layout == spreadLayout {
		options = append(options, shardedlist.WithParts(3))
	}
	list, err := shardedlist.New(rdb, name, options...)
	require.NoError(t, err)
	for _, element := range elements {
		_, err = list.RPush(t.Context(), element)
		require.NoError(t, err)
	}
}

// A page of elements that was printed stays popped.
func TestOnlyTheLastPageIsPutBack(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	run(t, server, strings.NewReader(strings.Repeat("x\n", 3*page)), "rpush", "l", "--capacity", "512") // in larger shards the embedded server takes seconds
	var stderr bytes.Buffer
	code := execute(t.Context(), []string{"lpop", "l", "30000", "--redis", server.Addr()}, nil, &limited{room: 2*page + 2, err: syscall.ENOSPC}, &stderr)
	assert.Equal(t, exitFailure, code)
	assert.Equal(t, "shardedlist: elements put back: 9999\nshardedlist: no space left on device\n", stderr.String())
	assert.Equal(t, "19999\n", run(t, server, nil, "llen", "l").out)
}

func TestAFullDiskAndAClosedPipe(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
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
	assert.Regexp(t, `^shardedlist: elements taken, not printed, and not put back: 2: lpush "l": `, stderr.String())
}

// dying is an output that fails together with the server.
type dying struct{ server *miniredis.Miniredis }

func (d dying) Write([]byte) (int, error) {
	d.server.Close()
	return 0, syscall.EPIPE
}
