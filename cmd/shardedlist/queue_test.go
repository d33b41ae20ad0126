package main

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/queue"
)

func TestQueueCommands(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	q, err := queue.New(rdb, "mail")
	require.NoError(t, err)
	ctx := t.Context()
	expect := func(args, out string, code int) {
		t.Helper()
		got := run(t, server, nil, strings.Fields(args)...)
		assert.Equal(t, code, got.code, args)
		assert.Regexp(t, "^"+out+"$", got.out, args)
	}
	const at = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`

	expect("queue peek mail", "", exitNothing)
	expect("queue dead mail", "", exitNothing)
	_, err = q.PushMany(ctx, []any{"one", "two\n", "\xff"})
	require.NoError(t, err)
	later, err := q.Push(ctx, "later", queue.In(time.Hour))
	require.NoError(t, err)
	expect("queue stats mail", `waiting:  3
delayed:  1
leased:   0
dead:     0
done:     0
failed:   0
buried:   0
paused:   false
oldest:   `+at+"\n", exitOK)
	expect("queue peek mail 2", `\S{36}\t0\t`+at+`\t\tone\n\S{36}\t0\t`+at+`\t\t"two\\n"\n`, exitOK)
	expect("queue peek mail 1 --right", `\S{36}\t0\t`+at+`\t\t"\\xff"\n`, exitOK)
	expect("queue peek mail 1 --right --json", `\{"attempt":0,"due":"","id":"\S{36}","last_error":"","payload_base64":"/w==","pushed_at":"`+at+`"\}\n`, exitOK)
	expect("queue peek mail --state delayed", later+`\t0\t`+at+`\t\tlater\n`, exitOK)
	expect("queue peek mail --state leased", "", exitNothing)
	expect("queue peek mail 0", "", exitOK)

	expect("queue pause mail", "OK\n", exitOK)
	expect("queue stats mail --json", `\{.*"paused":true,"waiting":3\}\n`, exitOK)
	expect("queue resume mail", "OK\n", exitOK)
	expect("queue cancel mail "+later, "1\n", exitOK)
	expect("queue cancel mail "+later, "0\n", exitNothing)

	running, end := context.WithCancel(ctx)
	done := make(chan error)
	go func() {
		done <- q.Run(running, 3, func(context.Context, *queue.Job) error { return errors.Join(queue.ErrDead) })
	}()
	require.Eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Dead == 3 }, time.Minute, time.Millisecond)
	end()
	require.NoError(t, <-done)
	expect("queue dead mail 1", `\S{36}\t1\t`+at+`\tqueue: the job is dead\t.*\n`, exitOK)
	jobs, err := q.Peek(ctx, queue.Dead, 1)
	require.NoError(t, err)
	expect("queue retry mail "+jobs[0].ID, "1\n", exitOK)
	expect("queue retry mail "+jobs[0].ID, "0\n", exitNothing)
	expect("queue retry mail --all", "2\n", exitOK)
	expect("queue stats mail", "(?s).*delayed:  3\n.*", exitOK)
}

func TestMistakesOfQueueCommands(t *testing.T) {
	t.Parallel()
	for args, message := range map[string]string{
		"queue":                         `wrong number of arguments; usage: shardedlist queue COMMAND`,
		"queue look mail":               `unknown command "look" for "shardedlist queue"`,
		"queue peek mail --state tired": `invalid state "tired": want waiting, delayed, leased or dead`,
		"queue peek mail -1":            `invalid count "-1": want an integer of at least 0`,
		"queue retry mail":              `want ids of jobs, or --all`,
		"queue cancel mail x":           `cancel "mail": no id of a job: "x"`,
	} {
		got := run(t, miniredis.RunT(t), nil, strings.Fields(args)...)
		assert.Equal(t, exitUsage, got.code, args)
		assert.Regexp(t, "^shardedlist: "+regexp.QuoteMeta(message)+"\n$", got.err, args)
	}
}
