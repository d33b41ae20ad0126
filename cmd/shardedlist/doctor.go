package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/scan"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/survey"
	"github.com/shardedlist/shardedlist/lua"
)

// The levels of a finding.
const (
	sound = "ok"
	note  = "note"
	fault = "fault"
)

// finding is a line of doctor.
type finding struct {
	Level   string `json:"level"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Mend    string `json:"mend,omitempty"` // the command
}

// What doctor takes for much.
const (
	hugeElements = 1_000_000
	hugeBytes    = 64 << 20
	fullPercent  = 90
	lagSeconds   = 10
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Tell what is wrong with the servers, or will be",
		Long: `Tell what is wrong with a server, or with all masters of a cluster, and what will be: its
version, what it does when memory is full, its functions, what a crash and a failover would
lose, what the user may do, slots that are stuck, clients that wait, lists that are damaged,
and plain lists that have grown huge. Each line is ok, a note or a fault, and may name the
command that mends it. With --json, print an array of objects.

It changes no key, and does without CONFIG. It scans the keys, and loads the library as any
call does. The exit code is 1 if there is a fault.`,
		Example: `  shardedlist doctor
  shardedlist doctor --json | jq -r '.[] | select(.level == "fault").text'`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.onServer(cmd, a.doctor) },
	}
}

func (a *app) doctor(ctx context.Context, rdb redis.UniversalClient) error {
	d := &doctor{findings: []finding{}} // JSON has an empty array
	err := scan.EachMaster(ctx, rdb, func(ctx context.Context, master redis.UniversalClient) error {
		d.server(ctx, master)
		return ctx.Err()
	})
	if err != nil {
		d.add(fault, "masters", "", "%v", err)
	}
	names, err := d.lists(ctx, rdb)
	if ctx.Err() != nil {
		return err
	} else if err != nil {
		d.add(fault, "lists", "", "they cannot be looked at: %v", err)
	}
	d.user(ctx, rdb, names)
	slices.SortStableFunc(d.findings, func(a, b finding) int { return strings.Compare(a.Subject, b.Subject) })
	if a.format() == asJSON {
		err = json.NewEncoder(a.stdout).Encode(d.findings)
	} else {
		err = d.print(a)
	}
	if err == nil && slices.ContainsFunc(d.findings, func(f finding) bool { return f.Level == fault }) {
		err = errNothing
	}
	return err
}

type doctor struct {
	mu       sync.Mutex // masters are visited at the same time
	findings []finding
}

func (d *doctor) print(a *app) error {
	for _, f := range d.findings {
		if _, err := fmt.Fprintf(a.stdout, "%-5s  %s: %s\n", f.Level, f.Subject, f.Text); err != nil {
			return err
		}
		if f.Mend != "" {
			if _, err := fmt.Fprintf(a.stdout, "       %s\n", f.Mend); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *doctor) add(level, subject, mend, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.findings = append(d.findings, finding{level, subject, fmt.Sprintf(format, args...), mend})
}

// info is the reply of INFO.
type info map[string]string

var infoLine = regexp.MustCompile(`(?m)^([a-z0-9_]+):(.*?)\r?$`)

func infoOf(text string) info {
	fields := info{}
	for _, line := range infoLine.FindAllStringSubmatch(text, -1) {
		fields[line[1]] = line[2]
	}
	return fields
}

func (i info) number(field string) int64 {
	n, _ := strconv.ParseInt(i[field], 10, 64)
	return n
}

// server looks at a master.
func (d *doctor) server(ctx context.Context, master redis.UniversalClient) {
	addr := master.(*redis.Client).Options().Addr
	text, err := master.Info(ctx).Result()
	if err != nil {
		d.add(note, addr, "", "INFO is refused, so little is known: %v", err)
		return
	}
	i := infoOf(text)
	d.version(addr, i)
	d.memory(addr, i)
	d.persistence(ctx, master, addr, i)
	d.replicas(addr, i)
	d.clients(addr, i)
	d.functions(ctx, master, addr)
	d.slots(ctx, master, addr)
}

func (d *doctor) version(addr string, i info) {
	name, version := "Redis", i["redis_version"]
	if valkey := i["valkey_version"]; valkey != "" {
		name, version = "Valkey", valkey
	}
	var major, minor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor)
	switch {
	case major < 6 || major == 6 && minor < 2:
		d.add(fault, addr, "", "%s %s is too old: the library needs 6.2", name, version)
	case name == "Redis" && major < 7:
		d.add(note, addr, "", "%s %s has no functions: each pipeline carries the scripts that it needs", name, version)
	case name == "Valkey" && version == "8.0.1":
		d.add(note, addr, "", "%s %s may crash if functions are flushed while they are called: say FUNCTION FLUSH SYNC", name, version)
	default:
		d.add(sound, addr, "", "%s %s", name, version)
	}
}

func (d *doctor) memory(addr string, i info) {
	const mend = "redis-cli config set maxmemory-policy noeviction"
	used, most, policy := i.number("used_memory"), i.number("maxmemory"), i["maxmemory_policy"]
	switch {
	case strings.HasPrefix(policy, "allkeys"):
		d.add(fault, addr, mend, "maxmemory-policy is %s: when memory is full, elements are evicted", policy)
	case strings.HasPrefix(policy, "volatile"):
		d.add(note, addr, mend, "maxmemory-policy is %s: when memory is full, lists that expire lose elements, and an operation whose reply is lost may be done twice", policy)
	default:
		d.add(sound, addr, "", "maxmemory-policy is %s", policy)
	}
	if n := i.number("evicted_keys"); n > 0 {
		d.add(note, addr, "", "%d keys have been evicted since the server started", n)
	}
	if most > 0 && used*100 >= most*fullPercent {
		d.add(note, addr, "", "%d %% of maxmemory is used: when it is full, pushes fail", used*100/most)
	}
}

func (d *doctor) persistence(ctx context.Context, master redis.UniversalClient, addr string, i info) {
	switch {
	case i["aof_enabled"] == "1" && i["aof_last_write_status"] != "ok":
		d.add(fault, addr, "", "the append-only file cannot be written")
	case i["aof_enabled"] == "1":
		d.add(sound, addr, "", "there is an append-only file")
	default:
		d.add(note, addr, "redis-cli config set appendonly yes", "there is no append-only file: a crash loses what was changed since the last save, %s changes so far",
			i["rdb_changes_since_last_save"])
	}
	if status := i["rdb_last_bgsave_status"]; status != "" && status != "ok" {
		d.add(fault, addr, "", "the last save has failed")
	}
	if i["aof_enabled"] != "1" {
		return
	}
	if config, err := master.ConfigGet(ctx, "aof-load-truncated").Result(); err == nil && config["aof-load-truncated"] == "yes" {
		d.add(note, addr, "redis-cli config set aof-load-truncated no", "after a power failure, a torn append-only file is loaded as far as it goes, which may double or lose an element")
	}
}

var replicaLine = regexp.MustCompile(`state=(\w+),offset=(\d+),lag=(\d+)`)

func (d *doctor) replicas(addr string, i info) {
	if i["role"] != "master" {
		d.add(fault, addr, "", "this is a replica, which takes no writes")
		return
	}
	replicas := 0
	for n := 0; i["slave"+strconv.Itoa(n)] != ""; n++ {
		words := replicaLine.FindStringSubmatch(i["slave"+strconv.Itoa(n)])
		if words == nil {
			continue
		}
		replicas++
		offset, _ := strconv.ParseInt(words[2], 10, 64)
		lag, _ := strconv.Atoi(words[3])
		behind := i.number("master_repl_offset") - offset
		switch {
		case words[1] != "online":
			d.add(note, addr, "", "a replica is not in sync: %s", words[1])
		case lag >= lagSeconds:
			d.add(note, addr, "", "a replica has not answered for %d s: a failover would lose %d bytes of changes", lag, behind)
		default:
			d.add(sound, addr, "", "a replica is %d bytes of changes behind, which a failover would lose", behind)
		}
	}
	if replicas == 0 {
		d.add(note, addr, "", "there is no replica: if this machine is lost, so are its lists")
	}
}

func (d *doctor) clients(addr string, i info) {
	connected, most, blocked := i.number("connected_clients"), i.number("maxclients"), i.number("blocked_clients")
	level := sound
	if most > 0 && connected*100 >= most*fullPercent {
		level = note
	}
	d.add(level, addr, "", "%d clients of at most %d, of which %d wait for elements", connected, most, blocked)
}

func (d *doctor) functions(ctx context.Context, master redis.UniversalClient, addr string) {
	libraries, err := master.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: lua.LibraryPattern}).Result()
	switch own := slices.ContainsFunc(libraries, func(l redis.Library) bool { return l.Name == lua.Functions().Name }); {
	case err != nil:
		d.add(note, addr, "", "functions cannot be listed: %v", err)
	case len(libraries) > 1:
		d.add(note, addr, "shardedlist functions --prune", "%d versions of the library are loaded", len(libraries))
	case len(libraries) == 0 || !own:
		d.add(sound, addr, "", "the library will be loaded by the first call")
	default:
		d.add(sound, addr, "", "the library is loaded")
	}
}

var movingSlot = regexp.MustCompile(`\[(\d+)-[<>]-[0-9a-f]+\]`)

// slots looks for slots that move. Of a server without CLUSTER there is nothing to say.
func (d *doctor) slots(ctx context.Context, master redis.UniversalClient, addr string) {
	nodes, err := master.ClusterNodes(ctx).Result()
	if err != nil {
		return
	}
	for line := range strings.Lines(nodes) {
		if !strings.Contains(line, "myself") {
			continue
		}
		for _, slot := range movingSlot.FindAllStringSubmatch(line, -1) {
			d.add(note, addr, "redis-cli --cluster fix "+addr, "slot %s is moving: if it stays so, it is stuck", slot[1])
		}
	}
	if state := infoOf(master.ClusterInfo(ctx).Val()); state["cluster_state"] == "fail" {
		d.add(fault, addr, "", "the cluster is down: %s of 16384 slots have a node", state["cluster_slots_ok"])
	}
}

// user reads the length of a list, of these or of one that is not there, and asks for what the user may call on it.
func (d *doctor) user(ctx context.Context, rdb redis.UniversalClient, names []string) {
	names = append([]string{"shardedlist:doctor"}, names...)
	var refused []string
	var unknown error
	mayUse := slices.IndexFunc(names, func(name string) bool {
		if unknown == nil {
			refused, unknown = refusedTo(ctx, rdb, name, []string{"exists @"})
		}
		return unknown == nil && len(refused) == 0
	})
	name := names[max(mayUse, 0)]
	list, err := shardedlist.New(rdb, name)
	if err == nil {
		_, err = list.LLen(ctx)
	}
	mode := (&script.Runner{Client: rdb}).Mode().String()
	switch {
	case script.IsForbidden(err):
		d.add(fault, "user", "", "the user may not use lists: %v", err)
	case err != nil && !errors.Is(err, shardedlist.ErrBroken):
		d.add(fault, "user", "", "a list cannot be read: %v", err)
	default:
		d.add(sound, "user", "", "lists can be read: %s", mode)
	}
	switch {
	case unknown != nil:
		d.add(note, "user", "", "what the user may do is not known: %v", unknown)
	case mayUse < 0 && err != nil:
		d.add(note, "user", "", "what the user may do is not known: it may use none of the lists looked at")
	default:
		d.permissions(ctx, rdb, name)
	}
}

// uses are what users of the library may want, and the commands that it needs. @ is a key of a list. docs/servers.md has them, too.
var uses = []struct {
	what     string
	level    string
	commands []string
}{
	{"lists", fault, []string{"eval x 0", "evalsha x 0", "blpop @ 1", "get @", "getrange @ 0 0", "set @ x", "del @", "unlink @", "exists @", "rename @ @", "copy @ @",
		"pexpire @ 1", "pexpireat @ 1", "pttl @", "persist @", "time", "hget @ x", "hset @ x x", "hmget @ x", "hgetall @", "hdel @ x", "lpush @ x", "rpush @ x",
		"lpushx @ x", "rpushx @ x", "lpop @", "rpop @", "llen @", "lindex @ 0", "lrange @ 0 0", "lset @ 0 x", "linsert @ before x x", "lrem @ 0 x", "ltrim @ 0 0", "lpos @ x"}},
	{"functions, in place of scripts that each pipeline carries", note, []string{"fcall x 0", "function load x"}},
	{"pops of several elements in a third of the time", note, []string{"sort @"}},
	{"large pushes and reads of short lists without scripts", note, []string{"multi", "exec"}},
	{"waits on more than eight lists in a process", note, []string{"ssubscribe @", "sunsubscribe @", "spublish @ x"}},
	{"WithReplicas", note, []string{"wait 1 1"}},
	{"the server's setting of the capacity", note, []string{"config get x"}},
	{"the memory of lists", note, []string{"memory usage @"}},
	{"Check, Repair and DelStrays", note, []string{"scan 0"}},
}

// permissions names what the user may not call, by what it is for.
func (d *doctor) permissions(ctx context.Context, rdb redis.UniversalClient, name string) {
	missing := false
	for _, use := range uses {
		refused, err := refusedTo(ctx, rdb, name, use.commands)
		if err != nil {
			d.add(note, "user", "", "what the user may do is not known: %v", err)
			return
		}
		if len(refused) > 0 {
			missing = true
			if slices.Contains(refused, "+lpush") && slices.Contains(refused, "+rpush") && slices.Contains(refused, "+lpop") && slices.Contains(refused, "+rpop") {
				d.add(note, "user", "", "the user may read lists, and not change them")
				continue
			}
			d.add(use.level, "user", "redis-cli acl setuser NAME "+strings.Join(refused, " "), "the user lacks what it needs for %s", use.what)
		}
	}
	if !missing {
		d.add(sound, "user", "", "the user may do all that the library calls")
	}
}

// asksACL replies the numbers of the commands that the user may not call. A command that the server lacks is none.
const asksACL = `if not redis.acl_check_cmd then
  return redis.error_reply('ERR the server does not say')
end
local refused = {}
for i = 2, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do
    words[#words + 1] = word == '@' and ARGV[1] or word
  end
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  if known and not may then
    refused[#refused + 1] = i - 2
  end
end
return refused`

// refusedTo returns which of the commands the user may not call on the keys of a list, as rules of an ACL.
func refusedTo(ctx context.Context, rdb redis.UniversalClient, name string, commands []string) (rules []string, err error) {
	args := []any{oneslot.KeysOf(name).Bell} // no key of the script, which the user may not use
	for _, command := range commands {
		args = append(args, command)
	}
	refused, err := rdb.Eval(ctx, asksACL, nil, args...).Int64Slice()
	for _, i := range refused {
		words := strings.Fields(commands[i])
		rule := "+" + words[0]
		switch words[0] {
		case "function", "config", "memory":
			rule += "|" + words[1]
		case "ssubscribe", "sunsubscribe", "spublish":
			rule += " '&*:bell'" // it may be the channel
		}
		rules = append(rules, rule)
	}
	return rules, err
}

// lists looks at all lists, and for what is left of others, and returns the names of some.
func (d *doctor) lists(ctx context.Context, rdb redis.UniversalClient) (names []string, err error) {
	number, hidden, elements := 0, 0, int64(0)
	for row, err := range survey.Rows(ctx, rdb, survey.Options{}) {
		if err != nil {
			return names, err
		}
		if len(names) < 20 && !script.IsForbidden(row.Err) {
			names = append(names, row.Name)
		}
		name := inShell(row.Name)
		if !row.Again {
			number, elements = number+1, elements+row.Length
		}
		switch {
		case script.IsForbidden(row.Err):
			hidden++
		case row.Strays > 0:
			d.add(fault, "list "+name, "shardedlist repair --dry-run "+name, "%d shards are there that no meta knows", row.Strays)
		case errors.Is(row.Err, shardedlist.ErrBroken):
			d.add(fault, "list "+name, "shardedlist repair --dry-run "+name, "%v", row.Err)
		case row.Err != nil:
			d.add(fault, "list "+name, "shardedlist check "+name, "%v", row.Err)
		case row.Form == survey.Plain && (row.Length >= hugeElements || row.Bytes >= hugeBytes):
			d.add(note, "list "+name, "shardedlist adopt "+name, "a plain list with %d elements", row.Length)
		case row.Form == survey.Sharded || row.Form == survey.Adopted:
			one := oneslot.New(oneslot.Config{Runner: &script.Runner{Client: rdb}, Name: row.Name})
			if err := one.CheckShards(ctx); err != nil {
				d.add(fault, "list "+name, "shardedlist repair --dry-run "+name, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
			}
		}
	}
	if hidden > 0 {
		d.add(note, "lists", "", "the user may not use %d of the lists, so nothing is known of them", hidden)
	}
	d.add(sound, "lists", "", "%d lists with %d elements", number, elements)
	return names, nil
}

// inShell is a name for a shell.
func inShell(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

var plainName = regexp.MustCompile(`^[\w:./@%+,{}-]+$`)
