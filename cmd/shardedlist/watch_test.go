package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// watch prints what is pushed, at either end, on each layout, and takes nothing.
func TestWatchPrintsWhatIsPushed(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster, redistest.Sentinel} {
		for _, layout := range []string{"sharded", "backlog", "spread"} {
			t.Run(string(kind)+"/"+layout, func(t *testing.T) {
				t.Parallel()
				server := redistest.Shared(t, kind)
				rdb := server.Client(t)
				options := []shardedlist.Option{shardedlist.WithCapacity(4)}
				if layout == "spread" {
					options = []shardedlist.Option{shardedlist.WithParts(3), shardedlist.WithCapacity(4)}
				}
				list, err := shardedlist.New(rdb, t.Name(), options...)
				require.NoError(t, err)
				if layout == "backlog" {
					require.NoError(t, rdb.RPush(t.Context(), t.Name(), "a", "b", "c").Err())
				} else {
					_, err = list.RPush(t.Context(), "a", "b", "c")
					require.NoError(t, err)
				}
				before, err := look(t.Context(), list)
				require.NoError(t, err)
				step := func(want ...string) {
					t.Helper()
					var pushed []string
					pushed, before, err = newSince(t.Context(), list, before)
					require.NoError(t, err)
					assert.Equal(t, strings.Join(want, " "), strings.Join(pushed, " "))
				}
				push := func(push func(ctx context.Context, values ...any) (int64, error), from, to int) (want []string) {
					for i := from; i < to; i++ {
						want = append(want, fmt.Sprint(i))
					}
					_, err := push(t.Context(), want)
					require.NoError(t, err)
					return want
				}
				step()
				step(push(list.RPush, 0, 1)...)
				step(push(list.LPush, 1, 3)...)
				step(append(push(list.RPush, 3, 5), push(list.LPush, 5, 7)...)...)
				_, err = list.LPopCount(t.Context(), 3)
				require.NoError(t, err)
				step()
				_, err = list.RPopCount(t.Context(), 1)
				require.NoError(t, err)
				step(push(list.RPush, 7, 9)...)
				step(push(list.RPush, 1000, 1100)...) // more than a look
				step(push(list.LPush, 2000, 2300)...)
				_, err = list.LPopCount(t.Context(), 1000)
				require.NoError(t, err)
				step()
				step(push(list.RPush, 3000, 3020)...)
				_, err = list.LPopCount(t.Context(), 1000)
				require.NoError(t, err)
				step(push(list.RPush, 4000, 4002)...) // none of those before is left
				length, err := list.LLen(t.Context())
				require.NoError(t, err)
				assert.EqualValues(t, 2, length)
				_, err = list.Del(t.Context())
				require.NoError(t, err)
			})
		}
	}
}

// growing is a list to which an element is pushed before each read.
type growing struct {
	*shardedlist.ShardedList
	pushed int
}

func (g *growing) LRange(ctx context.Context, start, stop int64) ([]string, error) {
	g.pushed++
	if _, err := g.RPush(ctx, g.pushed); err != nil {
		return nil, err
	}
	return g.ShardedList.LRange(ctx, start, stop)
}

// What is pushed between the reads of a look is printed once.
func TestWatchPrintsOnceWhatIsPushedMeanwhile(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	list, err := shardedlist.New(redistest.Start(t, redistest.Embedded).Client(t), "l")
	require.NoError(t, err)
	grown := &growing{ShardedList: list}
	before, err := look(t.Context(), grown)
	require.NoError(t, err)
	var printed []string
	for i := range 100 {
		var pushed []string
		for n := range i % 3 * watchedEnd { // more than a look
			_, err := list.RPush(t.Context(), fmt.Sprint("more ", i, n))
			require.NoError(t, err)
		}
		pushed, before, err = newSince(t.Context(), grown, before)
		require.NoError(t, err)
		printed = append(printed, pushed...)
	}
	printed = slices.DeleteFunc(printed, func(value string) bool { return strings.HasPrefix(value, "more ") })
	for i, value := range printed {
		require.Equal(t, strconv.Itoa(i+3), value, "the first look has read two")
	}
	assert.Greater(t, len(printed), 200)
}

// Who watches a list sees what is pushed after a failure of the server, and not again what was there before. What does not pass by itself
// ends it.
func TestWatchGoesOnWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	rdb := server.Client(t)
	list, err := shardedlist.New(rdb, "l")
	require.NoError(t, err)
	_, err = list.RPush(t.Context(), "there")
	require.NoError(t, err)
	require.NoError(t, rdb.Save(t.Context()).Err())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout, out := io.Pipe()
	stderr, complaints := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"watch", "l", "--interval", "0.01", "--redis", server.Addr()}, nil, out, complaints)
		_ = out.Close()
		_ = complaints.Close()
	}()
	lines, told := bufio.NewScanner(stdout), make(chan string, 100)
	go func() {
		for complaint := bufio.NewScanner(stderr); complaint.Scan(); {
			told <- complaint.Text()
		}
	}()
	first, pushed, shown := make(chan bool, 1), 0, -1
	push := func() {
		_, err := list.RPush(t.Context(), pushed)
		require.NoError(t, err)
		pushed++
	}
	next := func() {
		n, err := strconv.Atoi(lines.Text())
		assert.NoError(t, err)
		assert.Greater(t, n, shown, "it has been printed before")
		shown = n
	}
	go func() { first <- lines.Scan() }()
	eventually(t, func() bool {
		push()
		return len(first) > 0
	})
	require.True(t, <-first)
	next()
	require.NoError(t, rdb.Save(t.Context()).Err())
	server.Kill()
	go func() { // what is printed meanwhile
		for lines.Scan() && lines.Text() != "end" {
			next()
		}
		first <- true
	}()
	const passes = "shardedlist: trying again: "
	assert.Contains(t, <-told, passes)
	server.Restart(t)
	push()
	_, err = list.RPush(t.Context(), "end")
	require.NoError(t, err)
	<-first
	assert.Equal(t, pushed-1, shown)

	require.NoError(t, rdb.Set(t.Context(), "{l}:meta", "text", 0).Err())
	assert.Equal(t, exitFailure, <-ended)
	last := <-told
	for strings.HasPrefix(last, passes) {
		last = <-told
	}
	assert.Contains(t, last, "another type")
}

func TestWatchUntilInterrupted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	list, err := shardedlist.New(server.Client(t), "l")
	require.NoError(t, err)
	_, err = list.RPush(t.Context(), "there")
	require.NoError(t, err)
	require.NoError(t, server.Client(t).RPush(t.Context(), "l", "newcomer").Err())
	ctx, cancel := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"watch", "l", "--interval", "0.01", "--json", "--redis", server.Addr()}, nil, stdout, io.Discard)
	}()
	admin := server.Client(t)
	eventually(t, func() bool { // what is pushed during the first look, of three scripts, counts as there before
		return redistest.Calls(admin.Info(t.Context(), "commandstats").Val()) > 10
	})
	_, err = list.RPush(t.Context(), "a", "\xff")
	require.NoError(t, err)
	shown := make([]byte, len("\"a\"\n{\"base64\":\"/w==\"}\n"))
	_, err = io.ReadFull(out, shown)
	require.NoError(t, err)
	assert.Equal(t, "\"a\"\n{\"base64\":\"/w==\"}\n", string(shown))
	cancel()
	assert.Equal(t, exitInterrupted, <-ended)
	require.NoError(t, server.Client(t).RPush(t.Context(), "plain", "a", "b").Err())
	plain, err := shardedlist.New(server.Client(t), "plain")
	require.NoError(t, err)
	found, err := look(t.Context(), plain)
	require.NoError(t, err)
	assert.Equal(t, seen{[]string{"a", "b"}, []string{"b", "a"}, 2}, found)
	require.NoError(t, server.Client(t).Set(t.Context(), "text", "a", 0).Err())
	got := <-start(t.Context(), nil, "watch", "text", "--redis", server.Addr())
	assert.Equal(t, result{exitFailure, "", "shardedlist: watch \"text\": the key \"text\" holds another type: string\n"}, got)
	got = <-start(t.Context(), nil, "watch", "l", "--interval", "0", "--redis", server.Addr())
	assert.Equal(t, exitUsage, got.code)
}
