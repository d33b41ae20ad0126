package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/queue"
)

// Each promise is judged by the lines of workers. Times are in milliseconds here; the lease lasts a second.
func TestTheLedgerOfJobsFindsWhatIsWrong(t *testing.T) {
	const pushed = "> 1 0 1 0 0 - 1|+ 1 0 1 2 A"
	for name, test := range map[string]struct {
		lines string // of process 0; those behind a slash are of the next one
		there string // the payload that the keys have
		since int64  // when all that had been told was on a replica that takes over later
		want  string // the kind of the problem
		again int64
	}{
		"done":                      {pushed + "|b 1 1.0 1 1 A 3|e 1 ok 4|c 1 ended 5", "", 0, "", 0},
		"heard before its push":     {"b 1 1.0 1 1 A 3|e 1 ok 4|c 1 ended 5/" + pushed, "", 0, "", 0},
		"lost":                      {pushed, "", 0, jobLost, 0},
		"lost, and tried":           {pushed + "|b 1 1.0 1 1 A 3|e 1 error 4|c 1 ended 5", "", 0, jobLost, 0},
		"not lost, but there":       {pushed, "1.0", 0, "", 0},
		"unknown":                   {"> 1 0 1 0 0 - 1|? 1 0 1 2 -", "", 0, "", 0},
		"unreported":                {"> 1 0 1 0 0 - 1", "", 0, "", 0},
		"undone by a crash":         {"> 1 0 1 0 0 - 1000|+ 1 0 1 1001 A", "", 1000, "", 0},
		"lost before a crash":       {"> 1 0 1 0 0 - 1000|+ 1 0 1 1001 A", "", 1002, jobLost, 0},
		"one of several lost":       {"> 1 0 2 0 0 - 1|+ 1 0 2 2 -|b 1 1.1 1 1 A 3|e 1 ok 4", "", 0, jobLost, 0},
		"refused, and begun":        {"> 1 0 1 0 0 - 1|! 1 0 1 2 -|b 1 1.0 1 1 A 3", "", 0, jobInvented, 0},
		"refused, and there":        {"> 1 0 1 0 0 - 1|! 1 0 1 2 -", "1.0", 0, jobInvented, 0},
		"a duplicate, and begun":    {"> 1 0 1 0 0 7 1|d 1 0 1 2 B|b 1 1.0 1 1 A 3", "", 0, jobInvented, 0},
		"never pushed":              {"b 1 1.0 1 1 A 3", "", 0, jobInvented, 0},
		"never pushed, and there":   {"", "9.9", 0, jobInvented, 0},
		"another id":                {pushed + "|b 1 1.0 1 1 B 3|e 1 ok 4|c 1 ended 5", "", 0, jobRenamed, 0},
		"early":                     {"> 1 0 1 0 50000000 - 1|+ 1 0 1 2 A|b 1 1.0 1 1 A 40|e 1 ok 44|c 1 ended 45", "", 0, jobEarly, 0},
		"due":                       {"> 1 0 1 0 50000000 - 1|+ 1 0 1 2 A|b 1 1.0 1 1 A 51|e 1 ok 54|c 1 ended 55", "", 0, "", 0},
		"failed, then done":         {pushed + "|b 1 1.0 1 1 A 3|e 1 error 4|c 1 ended 5|b 2 1.0 2 1 A 6|e 2 ok 7|c 2 ended 8", "", 0, "", 0},
		"done twice":                {pushed + "|b 1 1.0 1 1 A 3|e 1 ok 4|c 1 ended 5|b 2 1.0 2 1 A 6|e 2 ok 7|c 2 ended 8", "", 0, jobTwice, 0},
		"done after its lease":      {pushed + "|b 1 1.0 1 1 A 3|c 1 lost 1003|e 1 ok 1500|b 2 1.0 2 1 A 1004|e 2 ok 1005|c 2 ended 1006", "", 0, "", 1},
		"done, lost, done":          {pushed + "|b 1 1.0 1 1 A 3|e 1 ok 4|c 1 lost 1003|b 2 1.0 2 1 A 1004|e 2 ok 1005|c 2 ended 1006", "", 0, "", 1},
		"told too late":             {pushed + "|b 1 1.0 1 1 A 3|c 1 lost 1403|e 1 ok 1500|b 2 1.0 2 1 A 1304|e 2 ok 1305|c 2 ended 1306", "", 0, jobTwice, 0},
		"told late, being stalled":  {pushed + "|b 1 1.0 1 1 A 3|h 900 1400|c 1 lost 1403|e 1 ok 1500/b 1 1.0 2 1 A 1304|e 1 ok 1305|c 1 ended 1306", "", 0, "", 1},
		"but in the same attempt":   {pushed + "|b 1 1.0 1 1 A 3|c 1 lost 1003|e 1 ok 1500|b 2 1.0 1 1 A 1004|e 2 ok 1005|c 2 ended 1006", "", 0, jobTwice, 0},
		"handed back":               {pushed + "|b 1 1.0 1 1 A 3|c 1 shutdown 103|e 1 ok 900|b 2 1.0 1 2 A 204|e 2 ok 205|c 2 ended 206", "", 0, "", 1},
		"killed":                    {pushed + "|b 1 1.0 1 1 A 3|e 1 ok 4|killed 5/b 1 1.0 2 1 A 1004|e 1 ok 1005|c 1 ended 1006", "", 0, "", 1},
		"killed when it was over":   {pushed + "|b 1 1.0 1 1 A 3|e 1 ok 4|c 1 ended 5|killed 9/b 1 1.0 2 1 A 1004|e 1 ok 1005|c 1 ended 1006", "", 0, jobTwice, 0},
		"another was killed":        {pushed + "|b 1 1.0 1 1 A 3|e 1 ok 4|c 1 ended 5/b 1 1.0 2 1 A 1004|e 1 ok 1005|c 1 ended 1006|killed 1007", "", 0, jobTwice, 0},
		"stalled":                   {pushed + "|b 1 1.0 1 1 A 3|h 10 1400|e 1 ok 1400|c 1 ended 1402/b 1 1.0 2 1 A 1304|e 1 ok 1305|c 1 ended 1306", "", 0, "", 1},
		"stalled for a moment":      {pushed + "|b 1 1.0 1 1 A 3|h 10 100|e 1 ok 101|c 1 ended 102/b 1 1.0 2 1 A 1304|e 1 ok 1305|c 1 ended 1306", "", 0, jobTwice, 0},
		"its Run had returned":      {pushed + "|b 1 1.0 1 1 A 3|e 1 ok 4|r 1 1000|c 1 ended 1001|b 2 1.0 2 2 A 2004|e 2 ok 2005|c 2 ended 2006", "", 0, "", 1},
		"its Run has gone on":       {pushed + "|b 1 1.0 1 1 A 3|e 1 ok 4|c 1 ended 901|r 1 1000|b 2 1.0 2 2 A 2004|e 2 ok 2005|c 2 ended 2006", "", 0, jobTwice, 0},
		"done again after a crash":  {pushed + "|b 1 1.0 1 1 A 3|e 1 ok 1004|c 1 ended 1005|b 2 1.0 1 1 A 2006|e 2 ok 2007|c 2 ended 2008", "", 1000, "", 0},
		"done again before a crash": {pushed + "|b 1 1.0 1 1 A 3|e 1 ok 1004|c 1 ended 1005|b 2 1.0 1 1 A 2006|e 2 ok 2007|c 2 ended 2008", "", 1006, jobTwice, 0},
		"refused after a crash":     {"> 1 0 1 0 0 7 1000|b 1 1.0 1 1 A 1003|e 1 ok 1004|d 1 0 1 3000 B", "", 1000, "", 0},
		"refused, and still there":  {"> 1 0 1 0 0 7 1000|b 1 1.0 1 1 A 1003|e 1 ok 1004|d 1 0 1 3000 B", "1.0", 1000, jobInvented, 0},
		"done, buried, done":        {pushed + "|b 1 1.0 1 1 A 3|e 1 ok 4|c 1 lost 1003|b 2 1.0 2 1 A 1004|e 2 dead 1005|c 2 ended 1006|b 3 1.0 1 1 A 1100|e 3 ok 1101", "", 0, "", 1},
		"its attempts used up":      {strings.Replace(pushed, " 0 0 - ", " 1 0 - ", 1) + "|b 1 1.0 2 1 A 3|e 1 ok 4|c 1 lost 1003|b 2 1.0 1 1 A 9000|e 2 ok 9001", "", 0, "", 1},
		"its attempts go back":      {pushed + "|b 1 1.0 2 1 A 3|e 1 ok 4|c 1 lost 1003|b 2 1.0 1 1 A 9000|e 2 ok 9001", "", 0, jobTwice, 0},
		"at once":                   {pushed + "|b 1 1.0 1 1 A 3|b 2 1.0 2 1 A 1100|e 2 ok 1400|c 1 lost 1401|e 1 error 1402", "", 0, jobAtOnce, 0},
		"at once, without a lease":  {pushed + "|b 1 1.0 1 1 A 3|c 1 lost 1003|b 2 1.0 2 1 A 1100|e 2 ok 1400|e 1 error 1402", "", 0, "", 0},
		"at once, but stalled":      {pushed + "|b 1 1.0 1 1 A 3|h 500 1400|c 1 lost 1401|e 1 error 1402/b 1 1.0 2 1 A 1100|e 1 ok 1390", "", 0, "", 0},
		"a key that is held":        {"> 1 0 1 0 0 7 1|+ 1 0 1 2 A|> 2 0 1 0 0 7 3|+ 2 0 1 4 B|b 1 1.0 1 1 A 5|e 1 ok 6|b 2 2.0 1 1 B 7|e 2 ok 8", "", 0, jobUnique, 0},
		"a key that is free again":  {"> 1 0 1 0 0 7 1|+ 1 0 1 2 A|b 1 1.0 1 1 A 3|e 1 ok 4|> 2 0 1 0 0 7 5|+ 2 0 1 6 B|b 2 2.0 1 1 B 7|e 2 ok 8", "", 0, "", 0},
		"a key of another queue":    {"> 1 0 1 0 0 7 1|+ 1 0 1 2 A|> 2 0 1 1 0 7 3|+ 2 0 1 4 B|b 1 1.0 1 1 A 5|e 1 ok 6|b 2 2.0 1 1 B 7|e 2 ok 8", "", 0, "", 0},
		"its push may yet be on it": {"> 1 0 1 0 0 7 1|+ 1 0 1 9 A|> 2 0 1 0 0 7 3|+ 2 0 1 4 B|b 2 2.0 1 1 B 5|e 2 ok 6|b 1 1.0 1 1 A 10|e 1 ok 11", "", 0, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newJobLedger(jobsSpec{Lease: time.Second, Queues: []jobQueueSpec{{Attempts: manyAttempts}, {Attempts: fewAttempts}}}, false)
			tell(l, test.lines)
			l.replicated = test.since * int64(time.Millisecond)
			there := places{}
			if test.there != "" {
				there[test.there] = "waiting"
			}
			tally := l.tally(there)
			if test.want == "" {
				assert.Empty(t, tally.Problems)
			} else if assert.NotEmpty(t, tally.Problems) {
				assert.Equal(t, test.want, tally.Problems[0].Kind, "%s", tally.Problems[0].Text)
			}
			assert.Equal(t, test.again, tally.Again)
		})
	}
}

// tell gives a ledger the lines of processes, with times in milliseconds, and "killed" with the time at which a process was.
func tell(l *jobLedger, processes string) {
	timesOf := map[byte][]int{'>': {7}, '+': {4}, '~': {4}, '?': {4}, '!': {4}, 'd': {4}, 'b': {6}, 'e': {3}, 'c': {3}, 'r': {2}, 'h': {1, 2}, 'k': {1}}
	for lines := range strings.SplitSeq(processes, "/") {
		p := &process{}
		for line := range strings.SplitSeq(lines, "|") {
			words := strings.Fields(line)
			if len(words) == 0 {
				continue
			}
			for _, i := range timesOf[line[0]] {
				words[i] += "000000"
			}
			if words[0] == "killed" {
				l.died(p, number([]byte(words[1])))
			} else {
				l.hear(p, []byte(strings.Join(words, " ")))
			}
		}
	}
}

func TestPushesOfReplicatedJobsAreNotExcused(t *testing.T) {
	for line, want := range map[string]int{"+ 1 0 1 2000 A": 1, "~ 1 0 1 2000 A": 0} {
		l := newJobLedger(jobsSpec{Lease: time.Second}, true)
		l.replicated = int64(time.Second)
		tell(l, "> 1 0 1 0 0 - 1|"+line)
		tally := l.tally(nil)
		assert.Len(t, tally.Problems, want)
		assert.EqualValues(t, 1-want, tally.Undone)
	}
}

func TestARunOfFewJobsIsNoEvidence(t *testing.T) {
	for lines, want := range map[string]string{
		"": "of 0 pushes",
		"> 1 0 1 0 0 - 1|+ 1 0 1 2 A|b 1 1.0 1 1 A 3|e 1 ok 4":                                                         "",
		"> 1 0 1 0 0 - 1|+ 1 0 1 2 A|b 1 1.0 1 1 A 3|e 1 error 4":                                                      "of 1 jobs, 0 were done",
		"> 1 0 3 0 0 - 1|+ 1 0 3 2 A|b 1 1.0 1 1 A 3|e 1 ok 4":                                                         "of 3 jobs, 1 were done",
		"> 1 0 1 0 0 - 1|+ 1 0 1 2 A|b 1 1.0 1 1 A 3|e 1 ok 4|> 1 1 1 0 0 - 1|! 1 1 1 2 -|> 1 2 1 0 0 - 1|? 1 2 1 2 -": "of 3 pushes, 1 were acknowledged",
	} {
		l := newJobLedger(jobsSpec{Lease: time.Second}, false)
		tell(l, lines)
		if err := l.Evidence(); want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
}

func TestARateThatIsExceededShows(t *testing.T) {
	var begins []int64
	for i := range int64(100) {
		begins = append(begins, i*int64(10*time.Millisecond))
	}
	assert.Zero(t, overRate(begins, 0, 100, 10))
	assert.Zero(t, overRate(slices.Repeat([]int64{0}, 10), 0, 100, 10), "a burst")
	assert.EqualValues(t, 40, overRate(begins, 0, 50, 10), "of 100, 10 are the burst, and 49 come in time")
	assert.EqualValues(t, 4, overRate(slices.Repeat([]int64{0}, 15), 0, 100, 10))
}

// The checker of the keys finds a job in two places, and keys that do not agree.
func TestTheKeysOfAQueueAreChecked(t *testing.T) {
	ctx, rdb := t.Context(), redistest.Shared(t, redistest.Redis).Client(t)
	sc := &scenario{rdb: rdb}
	const times, jobs = ":queue:times", ":queue:jobs"
	for name, test := range map[string]struct {
		spoil func(q *queue.Queue, name, id string) error
		want  string
	}{
		"nothing": {func(*queue.Queue, string, string) error { return nil }, ""},
		"waiting, too": {func(q *queue.Queue, name, id string) error {
			_, err := q.List().RPush(ctx, rdb.HGet(ctx, name+jobs, id).Val())
			return err
		}, "is waiting, and delayed, too"},
		"dead, too": {func(q *queue.Queue, name, id string) error {
			_, err := q.Dead().RPush(ctx, rdb.HGet(ctx, name+jobs, id).Val())
			return err
		}, "is dead, and delayed, too"},
		"dead too soon": {func(q *queue.Queue, name, id string) error {
			envelope := rdb.HGet(ctx, name+jobs, id).Val()
			_, err := q.Dead().RPush(ctx, envelope)
			return errors.Join(err, rdb.Del(ctx, name+jobs, name+times).Err())
		}, "is dead after 0 attempts of 3"},
		"no envelope": {func(_ *queue.Queue, name, id string) error { return rdb.HDel(ctx, name+jobs, id).Err() }, "1 jobs have a time, and 0 an envelope"},
		"no time":     {func(_ *queue.Queue, name, id string) error { return rdb.Del(ctx, name+times).Err() }, "0 jobs have a time, and 1 an envelope"},
		"leased, too": {func(_ *queue.Queue, name, id string) error {
			return rdb.ZAdd(ctx, name+times, redis.Z{Score: -9, Member: id + "abcdef"}).Err()
		}, "is leased, and delayed, too"},
		"another's envelope": {func(_ *queue.Queue, name, id string) error {
			envelope := []byte(rdb.HGet(ctx, name+jobs, id).Val())
			envelope[3]++ // the first byte of the id
			return rdb.HSet(ctx, name+jobs, id, envelope).Err()
		}, "has the envelope of"},
		"no job at all": {func(q *queue.Queue, _, _ string) error {
			_, err := q.Dead().RPush(ctx, "something")
			return err
		}, "no envelope of a job"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := jobQueueSpec{Name: fmt.Sprintf("%s:check:%s", tag, name), Attempts: fewAttempts}
			q := sc.openJobs(spec)
			_, err := q.Push(ctx, "1.0", queue.In(time.Hour))
			require.NoError(t, err)
			_, err = q.Push(ctx, "1.1")
			require.NoError(t, err)
			ids, err := rdb.HKeys(ctx, spec.Name+jobs).Result()
			require.NoError(t, err)
			require.NoError(t, test.spoil(q, spec.Name, ids[0]))
			keys, err := sc.readKeys(ctx, spec)
			require.NoError(t, err)
			found, err := keys.places(spec.Attempts)
			if test.want != "" {
				assert.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, places{"1.0": "delayed", "1.1": "waiting"}, found)
		})
	}
}

// So does the end of a run, if something is left.
func TestWhatIsLeftOfJobsShows(t *testing.T) {
	l := newJobLedger(jobsSpec{Lease: time.Second, Queues: make([]jobQueueSpec, 1)}, false)
	tell(l, "> 1 0 1 0 0 - 1|+ 1 0 1 2 A|b 1 1.0 1 1 A 3|e 1 ok 4")
	assert.NoError(t, l.over(places{}, []jobKeys{{done: 1}}))
	assert.ErrorContains(t, l.over(places{"1.0": "leased"}, []jobKeys{{done: 1}}), "1.0 is still leased")
	assert.ErrorContains(t, l.over(places{}, []jobKeys{{done: 2}}), "has counted 2 jobs that were done, and there are 1")
	assert.ErrorContains(t, l.over(places{}, []jobKeys{{done: 1, unique: []string{"key"}}}), "1 unique keys have outlived their jobs: key")
}
