package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist/internal/survey"
)

// listing is what the flags of ls say.
type listing struct {
	sort    string
	reverse bool
	limit   int
}

func (a *app) lsCommand() *cobra.Command {
	l := listing{}
	keys := strings.Join(slices.Sorted(maps.Keys(orders)), ", ")
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "Print all lists, and how they are stored",
		Long: `Print all lists of a server, or of all masters of a cluster, whose names match a pattern,
as KEYS takes it:

  form      sharded; spread over many slots; adopted, a plain list that was taken over and
            is yet to be split; restoring or restored; plain, a list of Redis
  length    number of elements
  shards    Redis lists that hold them
  capacity  elements per full shard
  memory    estimated from a few shards
  ttl       time until it expires
  waits     yes if it is empty and a consumer waits, or has done so lately
  place     the node and slot of its keys; the number of parts of a list that is spread
  name      quoted if it has characters that cannot be printed; behind it, on a terminal,
            what else is to be known: the backlog that adopt has yet to move, newcomers at
            the plain key, shards that are to be unlinked, the jobs of a queue, or why the
            list cannot be read

Redis does not tell who waits for a list, only that somebody has begun to. Each consumer
looks again every two seconds, and the note behind the name says when the last one did.

Lists are printed as they are found, while the command scans the keys, in small steps. With
--sort, they are printed at the end. If the output is no terminal, columns are separated by
tabs, numbers are exact, times are in seconds, and there is no header.`,
		Example: `  shardedlist ls
  shardedlist ls 'queue:*' --sort memory --limit 10
  shardedlist ls --json | jq -r 'select(.length > 1e6).name'`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if l.sort != "" && orders[l.sort] == nil {
				return usagef("--sort is one of %s", keys)
			}
			if l.limit < 0 {
				return usagef("--limit is negative")
			}
			match := ""
			if len(args) > 0 {
				match = args[0]
			}
			return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error { return a.ls(ctx, rdb, match, l) })
		},
	}
	a.completes(cmd, first(1), listNames)
	cmd.Flags().StringVar(&l.sort, "sort", "", "sort by `column`, the most first: "+keys)
	cmd.Flags().BoolVar(&l.reverse, "reverse", false, "sort the other way round")
	cmd.Flags().IntVar(&l.limit, "limit", 0, "print at most so `many` lists")
	return cmd
}

// orders compare lists by a column.
var orders = map[string]func(a, b survey.Row) int{
	"name":   func(a, b survey.Row) int { return cmp.Compare(a.Name, b.Name) },
	"length": func(a, b survey.Row) int { return cmp.Compare(b.Length, a.Length) },
	"shards": func(a, b survey.Row) int { return cmp.Compare(b.Shards, a.Shards) },
	"memory": func(a, b survey.Row) int { return cmp.Compare(b.Bytes, a.Bytes) },
	"ttl":    func(a, b survey.Row) int { return cmp.Compare(soonest(a), soonest(b)) },
}

// soonest sorts lists that do not expire behind those that do.
func soonest(r survey.Row) time.Duration {
	if r.TTL == 0 {
		return 1<<63 - 1
	}
	return r.TTL
}

func (a *app) ls(ctx context.Context, rdb redis.UniversalClient, match string, l listing) error {
	table := &listTable{w: bufio.NewWriter(a.stdout), format: a.format()}
	bar := a.progress("scanning", unknown, false)
	progressbar.OptionSetItsString("keys")(bar.bar)
	defer bar.done()
	drawn := false
	show := func(row survey.Row) error {
		if drawn {
			_ = bar.bar.Clear() // it may be on the same terminal
		}
		drawn = false
		return table.print(row)
	}
	var looked int64
	options := survey.Options{Match: match, Progress: func(now, keys int64) {
		bar.outOf(keys)
		bar.add(int(now-looked), 0)
		looked, drawn = now, true
	}}
	var rows []survey.Row
	var failed error // the survey, behind what it found
	printed := 0
	for row, err := range survey.Rows(ctx, rdb, options) {
		if failed = err; err != nil {
			break
		}
		if l.sort != "" || l.reverse {
			rows = append(rows, row)
			continue
		}
		if err := show(row); err != nil {
			return err
		}
		if printed++; printed == l.limit {
			break
		}
	}
	slices.SortFunc(rows, l.compare)
	if l.limit > 0 && len(rows) > l.limit {
		rows = rows[:l.limit]
	}
	for _, row := range rows {
		if err := show(row); err != nil {
			return err
		}
	}
	if failed == nil && printed+len(rows) == 0 {
		return errNothing
	}
	return failed
}

// compare orders by the column, and lists that are equal there by name.
func (l listing) compare(a, b survey.Row) int {
	order := cmp.Or(orders[cmp.Or(l.sort, "name")](a, b), cmp.Compare(a.Name, b.Name))
	if l.reverse {
		return -order
	}
	return order
}

// listTable prints rows as they come, so the widths of the columns are fixed, and the name is the last.
type listTable struct {
	w      *bufio.Writer
	format format
	began  bool
}

const tableLine = "%-9s %10s %8s %8s %8s %7s %5s  %-23s %s\n"

var tableHeader = []any{"FORM", "LENGTH", "SHARDS", "CAPACITY", "MEMORY", "TTL", "WAITS", "PLACE", "NAME"}

func (t *listTable) print(r survey.Row) error {
	switch t.format {
	case asJSON:
		line, err := json.Marshal(listObject(r))
		if err != nil {
			return err
		}
		_, _ = t.w.Write(append(line, '\n'))
	case pretty:
		if !t.began {
			fmt.Fprintf(t.w, tableLine, tableHeader...)
		}
		fmt.Fprintf(t.w, tableLine, tableFields(r)...)
	default:
		_, _ = t.w.WriteString(rawLine(r))
	}
	t.began = true
	return t.w.Flush()
}

// tableFields are the columns of a row, for people.
func tableFields(r survey.Row) []any {
	return []any{
		r.Form, thousands(r.Length), thousands(r.Shards), thousands(r.Capacity), humanBytes(r.Bytes), humanTTL(r.TTL), yesIf(waiting(r)), place(r),
		strings.TrimSpace(printable(r.Name) + "  " + notes(r)),
	}
}

// notes is what is to be known of few lists.
func notes(r survey.Row) string {
	if r.Err != nil {
		return "(" + printable(oneLine(r.Err.Error(), r.Err)) + ")"
	}
	var notes []string
	add := func(when bool, format string, args ...any) {
		if when {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	add(r.Armed && r.LookedAgo >= 0, "a consumer looked %.0f s ago", r.LookedAgo.Seconds())
	add(r.Backlog > 0, "backlog of %s", thousands(r.Backlog))
	add(r.Newcomers > 0, "%s", plural(r.Newcomers, "newcomer"))
	add(r.Strays > 0, "%s that no meta knows", plural(r.Strays, "shard"))
	add(r.Unswept > 0, "%s to unlink", plural(r.Unswept, "shard"))
	if q := r.Queue; q != nil {
		add(true, "%s delayed, %s leased, %s dead", thousands(q.Delayed), thousands(q.Leased), thousands(q.Dead))
		add(q.Paused, "paused")
		add(!q.Oldest.IsZero(), "next job waits for %s", humanTTL(max(r.At.Sub(q.Oldest), time.Second)))
	}
	if len(notes) == 0 {
		return ""
	}
	return "(" + strings.Join(notes, ", ") + ")"
}

// rawLine is a row for programs.
func rawLine(r survey.Row) string {
	ttl := ""
	if r.TTL > 0 {
		ttl = strconv.FormatFloat(r.TTL.Seconds(), 'f', 3, 64)
	}
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", r.Form, r.Length, r.Shards, r.Capacity, r.Bytes, ttl, yesIf(waiting(r)), place(r),
		printable(r.Name))
}

// listObject is a row as a JSON object.
func listObject(r survey.Row) map[string]any {
	object := map[string]any{
		"name": shownName(r.Name), "form": r.Form, "length": r.Length, "shards": r.Shards, "capacity": r.Capacity, "bytes": r.Bytes,
		"ttl_seconds": nil, "waits": waiting(r), "slot": r.Slot, "parts": r.Parts, "node": r.Node, "backlog": r.Backlog, "newcomers": r.Newcomers,
		"unswept": r.Unswept, "strays": r.Strays,
	}
	if r.TTL > 0 {
		object["ttl_seconds"] = r.TTL.Seconds()
	}
	if r.LookedAgo >= 0 {
		object["looked_seconds_ago"] = r.LookedAgo.Seconds()
	}
	if r.Err != nil {
		object["error"] = r.Err.Error()
	}
	if q := r.Queue; q != nil {
		object["queue"] = map[string]any{
			"delayed": q.Delayed, "leased": q.Leased, "dead": q.Dead, "done": q.Done, "failed": q.Failed, "buried": q.Buried, "paused": q.Paused,
			"waits": q.Waits, "oldest": timeText(q.Oldest),
		}
	}
	return object
}

// place says where the keys are.
func place(r survey.Row) string {
	switch {
	case r.Parts > 0:
		return fmt.Sprintf("%d parts", r.Parts)
	case r.Node != "":
		return fmt.Sprintf("%s %d", r.Node, r.Slot)
	}
	return "-"
}

// waiting reports whether a consumer has begun to wait.
func waiting(r survey.Row) bool { return r.Armed || r.Queue != nil && r.Queue.Waits }

func yesIf(is bool) string {
	if is {
		return "yes"
	}
	return "-"
}

// printable quotes a name if it has characters that cannot be printed, or looks quoted.
func printable(name string) string {
	if strings.HasPrefix(name, `"`) || strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) || r == '\uFFFD' }) {
		return quoted(name)
	}
	return name
}

// shownName is the name of a list as it is printed: quoted if need be in a line, and as an element is in JSON.
type shownName string

func (n shownName) String() string { return printable(string(n)) }

func (n shownName) MarshalJSON() ([]byte, error) { return []byte(jsonString(string(n))), nil }

// humanBytes is a size with three digits and a unit.
func humanBytes(bytes int64) string {
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, units := float64(bytes)/1024, "KMGTPE"
	for value >= 999.5 && len(units) > 1 {
		value, units = value/1024, units[1:]
	}
	return strconv.FormatFloat(value, 'g', 3, 64) + " " + units[:1] + "iB"
}

// humanTTL is a time in the largest unit that it has two of, or else in seconds.
func humanTTL(ttl time.Duration) string {
	switch {
	case ttl == 0:
		return "-"
	case ttl >= 48*time.Hour:
		return fmt.Sprintf("%d d", ttl/(24*time.Hour))
	case ttl >= 2*time.Hour:
		return fmt.Sprintf("%d h", ttl/time.Hour)
	case ttl >= 2*time.Minute:
		return fmt.Sprintf("%d min", ttl/time.Minute)
	}
	return fmt.Sprintf("%.0f s", max(1, ttl.Seconds()))
}
