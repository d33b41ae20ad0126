package hook

import (
	"slices"
	"strings"
	"time"

	"github.com/shardedlist/shardedlist/internal/layout"
)

var (
	oneKey  = keySpec{first: 1, last: 1}
	twoKeys = keySpec{first: 1, last: 2}
	allKeys = keySpec{first: 1, last: -1}
	butLast = keySpec{first: 1, last: -2} // a timeout
)

// Hints for commands that a sharded list does not support.
const (
	noForm   = "read it with LRANGE and push what was read"
	noSort   = "read it with LRANGE and sort what was read"
	noOther  = "there is no other database for it: copy it under another name, or read it with LRANGE and push what was read"
	noScript = "a script sees the keys of the shards only: call the list commands from Go, a transaction of which is atomic, or push from a script by NewScript"
)

// commands are those that the hook takes, by name and subcommand. Where the keys of those without keys here are, serverCommands says, and
// that has all others that have keys.
var commands = map[string]*command{
	"lpush": {arity: -3, keys: oneKey, grows: true, translate: joinPush(layout.Left), direct: pushAlone(layout.Left), onKey: adding(2)},
	"rpush": {arity: -3, keys: oneKey, grows: true, translate: joinPush(layout.Right), direct: pushAlone(layout.Right), onKey: adding(2)},
	"lpop":  {arity: -2, keys: oneKey, translate: joinPop(layout.Left), direct: popAlone(layout.Left)},
	"rpop":  {arity: -2, keys: oneKey, translate: joinPop(layout.Right), direct: popAlone(layout.Right)},

	"rpoplpush":  {arity: 3, keys: twoKeys, grows: true, translate: atOnce(rpoplpush)},
	"lmove":      {arity: 5, keys: twoKeys, grows: true, translate: atOnce(lmove)},
	"lmovem":     {arity: -5, keys: twoKeys, grows: true, translate: atOnce(lmovem)},
	"lmpop":      {arity: -4, keys: keySpec{number: 1, behind: 1}, translate: atOnce(lmpop)},
	"blpop":      {arity: -3, keys: butLast, blocks: true, translate: atOnce(blpop("LEFT")), direct: waiting(blpop("LEFT"))},
	"brpop":      {arity: -3, keys: butLast, blocks: true, translate: atOnce(blpop("RIGHT")), direct: waiting(blpop("RIGHT"))},
	"brpoplpush": {arity: 4, keys: twoKeys, grows: true, blocks: true, translate: atOnce(brpoplpush), direct: waiting(brpoplpush)},
	"blmove":     {arity: 6, keys: twoKeys, grows: true, blocks: true, translate: atOnce(blmove), direct: waiting(blmove)},
	"blmovem":    {arity: -6, keys: twoKeys, grows: true, blocks: true, translate: atOnce(blmovem), direct: waiting(blmovem)},
	"blmpop":     {arity: -5, keys: keySpec{number: 2, behind: 1}, blocks: true, translate: atOnce(blmpop), direct: waiting(blmpop)},

	"lpushx":  {arity: -3, keys: oneKey, grows: true, translate: pushXOnto(layout.Left), onKey: adding(2)},
	"rpushx":  {arity: -3, keys: oneKey, grows: true, translate: pushXOnto(layout.Right), onKey: adding(2)},
	"lset":    {arity: 4, keys: oneKey, grows: true, translate: translateLSet, onKey: adding(0)},
	"linsert": {arity: 5, keys: oneKey, grows: true, translate: translateLInsert, onKey: adding(4)},
	"lrem":    {arity: 4, keys: oneKey, translate: translateLRem, onKey: adding(0)},
	"ltrim":   {arity: 4, keys: oneKey, translate: translateLTrim, onKey: adding(0)},
	"lpos":    {arity: -3, keys: oneKey, translate: translateLPos, inPlace: true},

	"llen":   {arity: 2, keys: oneKey, translate: translateLLen, inPlace: true},
	"lindex": {arity: 3, keys: oneKey, translate: translateLIndex, inPlace: true},
	"lrange": {arity: 4, keys: oneKey, translate: translateLRange, inPlace: true},

	"del":    {arity: -2, keys: allKeys, general: true, translate: translateDel, counts: true},
	"unlink": {arity: -2, keys: allKeys, general: true, translate: translateDel, counts: true},
	"exists": {arity: -2, keys: allKeys, general: true, translate: translateExists, counts: true},
	"touch":  {arity: -2, keys: allKeys, general: true, translate: translateExists, counts: true},
	"type":   {arity: 2, keys: oneKey, general: true, translate: translateType, inPlace: true},

	"expire":      {arity: -3, keys: oneKey, general: true, translate: translateExpire(layout.ExpireIn, time.Second), onKey: expiringOnKey(layout.ExpireIn, time.Second)},
	"pexpire":     {arity: -3, keys: oneKey, general: true, translate: translateExpire(layout.ExpireIn, time.Millisecond), onKey: expiringOnKey(layout.ExpireIn, time.Millisecond)},
	"expireat":    {arity: -3, keys: oneKey, general: true, translate: translateExpire(layout.ExpireAt, time.Second), onKey: expiringOnKey(layout.ExpireAt, time.Second)},
	"pexpireat":   {arity: -3, keys: oneKey, general: true, translate: translateExpire(layout.ExpireAt, time.Millisecond), onKey: expiringOnKey(layout.ExpireAt, time.Millisecond)},
	"persist":     {arity: 2, keys: oneKey, general: true, translate: translatePersist, onKey: adding(0)},
	"ttl":         {arity: 2, keys: oneKey, general: true, translate: translateTTL(time.Second, false), inPlace: true},
	"pttl":        {arity: 2, keys: oneKey, general: true, translate: translateTTL(time.Millisecond, false), inPlace: true},
	"expiretime":  {arity: 2, keys: oneKey, general: true, translate: translateTTL(time.Second, true)},
	"pexpiretime": {arity: 2, keys: oneKey, general: true, translate: translateTTL(time.Millisecond, true)},

	"rename":   {arity: 3, keys: twoKeys, translate: translateRename("OK", true)},
	"renamenx": {arity: 3, keys: twoKeys, translate: translateRename(int64(1), false)},
	"copy":     {arity: -3, keys: twoKeys, grows: true, translate: translateCopy},

	"object|encoding": {arity: 3, general: true, translate: translateObject},
	"object|freq":     {arity: 3, general: true, translate: translateObject},
	"object|idletime": {arity: 3, general: true, translate: translateObject},
	"object|refcount": {arity: 3, general: true, translate: translateObject},
	"memory|usage":    {arity: -3, general: true, translate: translateMemoryUsage},

	"watch":      {arity: -2, keys: allKeys, general: true, translate: refuseWatch},
	"dump":       {arity: 2, keys: oneKey, hint: noForm},
	"restore":    {arity: -4, keys: oneKey, hint: noForm},
	"move":       {arity: 3, keys: oneKey, hint: noForm},
	"migrate":    {arity: -6, keys: allKeys, hint: noForm},
	"sort":       {arity: -2, keys: allKeys, hint: noSort},
	"sort_ro":    {arity: -2, keys: oneKey, hint: noSort},
	"eval":       {arity: -3, keys: keySpec{number: 2}, hint: noScript},
	"evalsha":    {arity: -3, keys: keySpec{number: 2}, hint: noScript},
	"eval_ro":    {arity: -3, keys: keySpec{number: 2}, hint: noScript},
	"evalsha_ro": {arity: -3, keys: keySpec{number: 2}, hint: noScript},
	"fcall":      {arity: -3, keys: keySpec{number: 2}, hint: noScript},
	"fcall_ro":   {arity: -3, keys: keySpec{number: 2}, hint: noScript},
}

// Commands returns the commands that the hook carries out, and those that it refuses.
func Commands() (supported, refused []string) {
	for name, command := range commands {
		name, _, _ = strings.Cut(name, "|")
		switch {
		case command.hint != "":
			refused = append(refused, name)
		case !slices.Contains(supported, name):
			supported = append(supported, name)
		}
	}
	return supported, refused
}
