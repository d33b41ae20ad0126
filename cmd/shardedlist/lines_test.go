package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	inputs := map[string]string{
		"nothing":           "",
		"an empty line":     "\n",
		"empty lines":       "\n\n\n\n",
		"a line":            "one\n",
		"without newline":   "one\ntwo",
		"carriage returns":  "one\r\n\r\ntwo\r\n\rthree\n",
		"NUL bytes":         "\x00\none\x00two\n\x00\x00\n",
		"not UTF-8":         "\xff\xfe\n\xc3\x28\n\x80\n",
		"looks like flags":  "-1\n--help\n-0\n--\n",
		"more than a batch": strings.Repeat("a line of the log\n", 2*batchValues+1),
		"long lines":        strings.Repeat("x", 3<<20) + "\n\n" + strings.Repeat("y", 2<<20) + "\nshort\n" + strings.Repeat("z", batchBytes) + "\n",
		"as long as a read": strings.Repeat("x", 64<<10) + "\n" + strings.Repeat("y", 64<<10-1) + "\n",
		"random":            string(randomBytes(1 << 20)),
		"access log":        read(t, newAccessLog(5000)),
	}
	for name, input := range inputs {
		for _, null := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, null %t", name, null), func(t *testing.T) {
				server := miniredis.RunT(t)
				delimiter, flag := "\n", "--null=false"
				if null {
					delimiter, flag = "\x00", "-0"
				}
				want := input
				if want != "" && !strings.HasSuffix(want, delimiter) {
					want += delimiter
				}
				pushed := run(t, server, strings.NewReader(input), "rpush", "l", flag)
				assert.Equal(t, result{exitOK, fmt.Sprintln(strings.Count(want, delimiter)), ""}, pushed)

				got := run(t, server, nil, "lrange", "l", "0", "-1", flag)
				assert.Zero(t, got.code)
				assert.True(t, got.out == want, "lrange gave something else")

				got = run(t, server, nil, "lpop", "l", "1000000000", flag)
				assert.True(t, got.out == want, "lpop gave something else")
			})
		}
	}
}

func TestRangesOfSeveralPages(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	const length = 3*page + 7
	var input strings.Builder
	for i := range length {
		fmt.Fprintln(&input, i)
	}
	lines := strings.SplitAfter(input.String(), "\n")[:length]
	run(t, server, strings.NewReader(input.String()), "rpush", "l")
	for _, r := range []struct{ start, stop, from, to int }{
		{1, -1, 1, length},
		{0, -2, 0, length - 1},
		{0, length - 1, 0, length},
		{0, page - 1, 0, page},
		{0, page, 0, page + 1},
		{5, 5 + 2*page - 1, 5, 5 + 2*page},
		{-page - 1, -1, length - page - 1, length},
		{-length - 5, length + 5, 0, length},
		{page, -page, page, length - page + 1},
		{length, length + 3*page, 0, 0},
	} {
		got := run(t, server, nil, "lrange", "l", fmt.Sprint(r.start), fmt.Sprint(r.stop))
		assert.Equal(t, exitOK, got.code)
		assert.True(t, got.out == strings.Join(lines[r.from:r.to], ""), "lrange %d %d", r.start, r.stop)
	}

	got := run(t, server, nil, "lpop", "l", fmt.Sprint(page))
	assert.True(t, got.out == strings.Join(lines[:page], ""))
	got = run(t, server, nil, "lpop", "l", fmt.Sprint(page+1))
	assert.True(t, got.out == strings.Join(lines[page:2*page+1], ""))
}

func TestLinesArePushedAsTheyArrive(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	stdin, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := start(ctx, stdin, "rpush", "l", "--redis", server.Addr())

	_, err := io.WriteString(writer, "one\ntwo\n")
	require.NoError(t, err)
	eventually(t, func() bool { return run(t, server, nil, "llen", "l").out == "2\n" })
	cancel()
	got := <-ended
	assert.Equal(t, exitInterrupted, got.code)
	assert.Equal(t, "shardedlist: interrupted after 2 values were pushed\n", got.err)
}

func TestInputThatFails(t *testing.T) {
	t.Parallel()
	stdin := io.MultiReader(strings.NewReader("one\ntwo\nthr"), iotest.ErrReader(errors.New("the disk is gone")))
	got := run(t, miniredis.RunT(t), stdin, "rpush", "l")
	assert.Equal(t, exitFailure, got.code)
	assert.Equal(t, "shardedlist: the disk is gone (after 2 values were pushed)\n", got.err)
}

func TestServerThatFailsAmidstAPush(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	stdin, writer := io.Pipe()
	ended := start(t.Context(), stdin, "rpush", "l", "--redis", server.Addr())
	_, err := io.WriteString(writer, "one\ntwo\n")
	require.NoError(t, err)
	eventually(t, func() bool { return run(t, server, nil, "llen", "l").out == "2\n" })
	server.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	_, err = io.WriteString(writer, "three\n")
	require.NoError(t, err)
	got := <-ended
	assert.Equal(t, exitFailure, got.code)
	assert.Equal(t, "shardedlist: rpush \"l\": OOM command not allowed when used memory > 'maxmemory'."+
		" (after 2 values were pushed)\n", got.err)
	require.NoError(t, writer.Close())
}

func FuzzBatches(f *testing.F) {
	f.Add([]byte("one\n\ntwo\r\nthree"), byte('\n'), 2)
	f.Add([]byte("\x00\x00"), byte(0), 1)
	f.Fuzz(func(t *testing.T, input []byte, delimiter byte, most int) {
		if most < 1 {
			return
		}
		for _, r := range []io.Reader{
			bytes.NewReader(input),
			iotest.OneByteReader(bytes.NewReader(input)),
			iotest.DataErrReader(bytes.NewReader(input)),
			interruptible{t.Context(), iotest.HalfReader(bytes.NewReader(input))},
		} {
			var got []byte
			for batch, err := range batches(r, delimiter, most) {
				require.NoError(t, err)
				require.NotEmpty(t, batch)
				require.LessOrEqual(t, len(batch), most)
				for _, element := range batch {
					got = append(append(got, element...), delimiter)
				}
			}
			if n := len(input); n > 0 && input[n-1] != delimiter {
				got = bytes.TrimSuffix(got, []byte{delimiter})
			}
			require.True(t, bytes.Equal(input, got))
		}
	})
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", batchBytes/10) + "\n"
	for batch, err := range batches(strings.NewReader(strings.Repeat(line, 100)), '\n', batchValues) {
		require.NoError(t, err)
		assert.LessOrEqual(t, len(batch), 11)
	}
}

// randomBytes are bytes with many of those that could be mistaken.
func randomBytes(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(256))
		if r.IntN(4) == 0 {
			b[i] = "\n\r\x00 -"[r.IntN(5)]
		}
	}
	return b
}

func read(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(b)
}
