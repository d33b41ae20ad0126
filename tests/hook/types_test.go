package hook

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// comparison is of one server's keys of two kinds: plain ones, and ones that match. Words such as @L are keys of the kind.
type comparison struct {
	t             *testing.T
	plain, hooked redis.UniversalClient
	tag           string
	kind          redistest.Kind
}

// eachComparison runs a test on every kind of server, in both protocols.
func eachComparison(t *testing.T, test func(d *comparison)) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, RESP%d", kind, protocol), func(t *testing.T) {
				t.Parallel()
				server := redistest.Shared(t, kind)
				speak := func(o *redis.UniversalOptions) { o.Protocol = protocol }
				test(&comparison{t, server.Client(t, speak), hookOn(t, server, "*:sharded:*", speak), "{" + uuid.NewString() + "}", kind})
			})
		}
	}
}

func (d *comparison) args(kind, command string) []any {
	var args []any
	for _, word := range strings.Fields(command) {
		if key, ok := strings.CutPrefix(word, "@"); ok {
			word = d.tag + ":" + kind + ":" + key
		}
		args = append(args, strings.Trim(word, `"`))
	}
	return args
}

// setUp makes one key of each type: L, s, z, set, h, x; n holds nothing.
func (d *comparison) setUp() {
	for kind, rdb := range map[string]redis.UniversalClient{"plain": d.plain, "sharded": d.hooked} {
		_, err := rdb.Pipelined(d.t.Context(), func(p redis.Pipeliner) error {
			for _, command := range []string{
				"unlink @L @s @z @set @h @x @n", "rpush @L 1 2 3 4 5", "set @s v", "zadd @z 1 a 2.5 b", "sadd @set a", "hset @h f v g 2", "xadd @x 1-1 f v",
			} {
				p.Do(d.t.Context(), d.args(kind, command)...)
			}
			return nil
		})
		require.NoError(d.t, err)
	}
}

// types are the types of the keys.
func (d *comparison) types(kind string, rdb redis.UniversalClient) (types []string) {
	cmds, err := rdb.Pipelined(d.t.Context(), func(p redis.Pipeliner) error {
		for _, key := range d.args(kind, "@L @s @z @set @h @x @n") {
			p.Type(d.t.Context(), key.(string))
		}
		return nil
	})
	require.NoError(d.t, err)
	for _, cmd := range cmds {
		types = append(types, cmd.(*redis.StatusCmd).Val())
	}
	return types
}

// same compares commands, separated by semicolons: one by one, in a pipeline, and in a transaction.
func (d *comparison) same(line string) {
	ctx := d.t.Context()
	commands := strings.Split(line, ";")
	ways := map[string]func(redis.UniversalClient, func(redis.Pipeliner) error) ([]redis.Cmder, error){
		"pipeline": func(rdb redis.UniversalClient, f func(redis.Pipeliner) error) ([]redis.Cmder, error) {
			return rdb.Pipelined(ctx, f)
		},
		"transaction": func(rdb redis.UniversalClient, f func(redis.Pipeliner) error) ([]redis.Cmder, error) {
			return rdb.TxPipelined(ctx, f)
		},
		"one by one": func(rdb redis.UniversalClient, f func(redis.Pipeliner) error) (cmds []redis.Cmder, err error) {
			p := rdb.Pipeline()
			_ = f(p)
			for _, cmd := range p.Cmds() {
				_ = rdb.Process(ctx, cmd)
				cmds = append(cmds, cmd)
			}
			return cmds, nil
		},
	}
	for name, way := range ways {
		d.setUp()
		send := func(kind string, rdb redis.UniversalClient) (replies []string) {
			cmds, _ := way(rdb, func(p redis.Pipeliner) error {
				for _, command := range commands {
					p.Do(ctx, d.args(kind, command)...)
				}
				return nil
			})
			for _, cmd := range cmds {
				replies = append(replies, replyOf(cmd.(*redis.Cmd)))
			}
			return append(replies, d.types(kind, rdb)...)
		}
		assert.Equal(d.t, send("plain", d.plain), send("sharded", d.hooked), "%s, %s", line, name)
	}
	keys := d.args("sharded", "@L @s @z @set @h @x @n")
	cmds, err := d.hooked.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Exists(ctx, key.(string))
		}
		return nil
	})
	require.NoError(d.t, err)
	for i, cmd := range cmds {
		assert.LessOrEqual(d.t, cmd.(*redis.IntCmd).Val(), int64(1), "%s: %s is two things", line, keys[i])
	}
}

// Commands of other types reply on a key that matches what they reply on a plain key, value for value.
func TestHookedCommandsOfOtherTypesReplyAsRedis(t *testing.T) {
	redistest.LongOnly(t)
	eachComparison(t, func(d *comparison) {
		for _, line := range []string{
			"get @s", "get @n", "get @L", "set @n 1", "set @s 1 get", "set @n 1 nx", "set @s 1 nx", "set @L 1 nx", "setnx @L 1", "setnx @n 1", "append @n a",
			"incr @n", "incr @L", "incr @s", "incrby @L abc", "incrbyfloat @n 1.5", "getrange @s 0 0", "getrange @L a 0", "getex @s ex 10", "getdel @s", "getset @s w",
			"mget @s @L @n", "mset @s 1 @n 2", "msetnx @n 1 @L 2", "msetnx @n 1", "setrange @n 2 a", "strlen @L", "strlen @s", "lcs @s @s", "lcs @s @L",
			"bitop and @n @s @s", "bitop and @n @s @L", "bitcount @s", "bitcount @L", "bitfield @n overflow fail incrby u2 0 5 incrby u2 1 1", "setbit @n 1 1",
			"hset @n f v", "hset @L f v", "hgetall @h", "hgetall @n", "hgetall @L", "hmget @h f x g", "hmget @L f", "hincrbyfloat @h g 1.5", "hdel @h f", "hrandfield @h 2 withvalues",
			"hset @h f",
			"sadd @n a", "sadd @L a", "smembers @set", "sismember @set a", "smismember @set a x", "smove @set @n a", "smove @set @L a", "smove @L @set a", "spop @L",
			"sinter @set @set", "sinter @set @L", "sunionstore @n @set", "sunionstore @n @set @L", "sintercard 2 @set @L", "sdiff @n @L", "sinterstore @n @n @L",
			"zadd @n 1 a", "zadd @L 1 a", "zadd @L x a", "zrange @z 0 -1 withscores", "zscore @z b", "zscore @L b", "zmscore @z b x a", "zincrby @z 1.5 a", "zadd @z incr 1 a", "zadd @z nx incr 1 a",
			"zpopmin @z", "zunion 2 @z @set withscores", "zunion 2 @z @L", "zunionstore @n 2 @z @set", "zunionstore @n 2 @z @L", "zrangestore @n @z 0 -1", "zmpop 2 @n @z min", "zmpop 2 @L @z min",
			"bzpopmin @n @z 1", "bzpopmin @L @z 1", "bzmpop 1 2 @L @z min", "geoadd @n 13 38 a;geopos @n a b;geohash @n a b",
			"pfadd @n a b;pfcount @n;pfmerge @n @n", "pfmerge @n @L", "pfcount @n @L", "pfadd @L a",
			"xadd @n 1-1 f v", "xadd @L * f v", "xadd @L nomkstream * f v", "xrange @x - +", "xread streams @x 0", "xread streams @x @L 0 0", "xread streams @n @x 0 $",
			"xread block 1 streams @n 0", "xread block 1 streams @L 0", "xlen @L", "xinfo stream @L", "xinfo groups @x",
			"xgroup create @x g 0;xreadgroup group g c streams @x >;xdel @x 1-1;xreadgroup group g c streams @x 0;xpending @x g", "xgroup create @L g 0", "xgroup create @n g 0 mkstream", "xpending @x g",
			"rpush @s a", "rpush @set a", "lpop @h", "lpos @s a rank 0", "lpos @s a", "lpos @L 1 rank -9223372036854775808", "lpos @s a rank -9223372036854775808", "lpos @L 1 rank -9223372036854775807",
			"rpush @n a;sadd @n a", "sadd @n a;rpush @n a", "unlink @L;sadd @L a", "del @L;hset @L f v;get @L", "lpop @L 5;hset @L f v;rpush @L a", "set @n 1;rpush @n a;del @n;rpush @n a",
			"rpush @n a b;lpop @n 2;zadd @n 1 a;lrange @n 0 -1", "rename @L @n;set @n 1 nx;sadd @L a",
		} {
			d.same(line)
		}
	})
}

// What overwrites in Redis fails where there is a list, and nothing of it is done.
func TestHookedCommandsThatReplaceAListFail(t *testing.T) {
	eachComparison(t, func(d *comparison) {
		ctx := d.t.Context()
		d.setUp()
		for _, command := range []string{
			"set @L 1", "set @L 1 xx", "setex @L 1 v", "mset @n 1 @L 2", "mset @L 1 @n 2", "sunionstore @L @set", "sinterstore @L @n @set", "zunionstore @L 1 @z", "zrangestore @L @z 0 -1",
			"bitop not @L @s", "georadius @n 1 1 1 m store @L", "geosearchstore @L @n fromlonlat 1 1 byradius 1 m", "pfmerge @L @n", "rename @s @L", "rename @L @s", "copy @s @L replace", "copy @L @s replace",
		} {
			args := d.args("sharded", command)
			_, pipelined := d.hooked.Pipelined(ctx, func(p redis.Pipeliner) error { p.Do(ctx, args...); return nil })
			_, transacted := d.hooked.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Do(ctx, args...); return nil })
			for _, err := range []error{d.hooked.Do(ctx, args...).Err(), pipelined, transacted} {
				assert.EqualError(d.t, err, "WRONGTYPE Operation against a key holding the wrong kind of value", command)
			}
		}
		assert.Equal(d.t, []string{"list", "string", "zset", "set", "hash", "stream", "none"}, d.types("sharded", d.hooked))
		assert.Equal(d.t, []string{"1", "2", "3", "4", "5"}, d.hooked.LRange(ctx, d.args("sharded", "@L")[0].(string), 0, -1).Val())
	})
}

// RENAME, COPY and MEMORY USAGE on keys that match and hold no list do as Redis does, and RENAMENX and COPY find what is there.
func TestHookedTransfersOfWhatIsNoList(t *testing.T) {
	redistest.LongOnly(t)
	eachComparison(t, func(d *comparison) {
		database := "0"
		lines := []string{
			"rename @s @n", "rename @s @z", "rename @n @s", "rename @n @L", "rename @s @s", "rename @n @n", "rename @L @L", "renamenx @s @n", "renamenx @s @z", "renamenx @n @s",
			"renamenx @s @s", "renamenx @n @n", "renamenx @L @s", "renamenx @s @L", "renamenx @L @n", "renamenx @L @L", "copy @s @n", "copy @s @z", "copy @s @z replace", "copy @n @s",
			"copy @L @s", "copy @s @L", "copy @L @n", "copy @s @s", "copy @L @L", "copy @n @n", "copy @s @s bad", "copy @n @L replace",
			"memory usage @s", "memory usage @n", "memory usage @s samples 0", "memory usage @s samples -1", "memory usage @L samples -1", "memory usage @L samples x", "memory usage @L bad",
			"memory usage @L samples", "object encoding @s", "object encoding @n", "object refcount @n", "object freq @n", "object encoding @L", "object refcount @L", "object foo @L", "object encoding",
			"set @s w;renamenx @s @n;get @n", "rpush @n a;rename @n @z;lrange @z 0 -1",
		}
		for _, line := range []string{"copy @L @n db D", "copy @s @n db D", "copy @s @n DB D replace", "copy @L @n db D bad", "copy @L @n db x", "copy @s @n db"} {
			lines = append(lines, strings.ReplaceAll(line, "D", database))
		}
		for _, line := range lines {
			if line == "rpush @n a;rename @n @z;lrange @z 0 -1" {
				continue // replaces a value of another type
			}
			d.same(line)
		}
		list := d.args("sharded", "@L")[0].(string)
		usage, err := d.hooked.MemoryUsage(d.t.Context(), list).Result()
		require.NoError(d.t, err)
		assert.Positive(d.t, usage)
		copied, err := d.hooked.Copy(d.t.Context(), list, list+"2", 0, false).Result()
		require.NoError(d.t, err)
		assert.EqualValues(d.t, 1, copied)
		assert.EqualValues(d.t, 5, d.hooked.LLen(d.t.Context(), list+"2").Val())
	})
}

// COPY takes the number of the database that the client uses, which go-redis sends.
func TestHookedCopyInAnotherDatabase(t *testing.T) {
	t.Parallel()
	realServers(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb := hookOn(t, server, "q*", func(o *redis.UniversalOptions) { o.DB = 3 })
		require.NoError(t, rdb.RPush(ctx, "q", "a", "b", "c").Err())
		assert.EqualValues(t, 1, rdb.Copy(ctx, "q", "q2", 3, false).Val())
		assert.Equal(t, []string{"a", "b", "c"}, rdb.LRange(ctx, "q2", 0, -1).Val())
		assert.ErrorIs(t, rdb.Copy(ctx, "q", "q2", 0, false).Err(), shardedlist.ErrUnsupported)
	})
}

// However writers of two types meet at a key, it never holds both.
func TestHookedKeyNeverHoldsTwoThings(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, ctx := redistest.Shared(t, kind), t.Context()
			prefix := uuid.NewString()
			rdb, other := hookOn(t, server, prefix+"*"), hookOn(t, server, prefix+"*")
			lists, sets := 0, 0
			for i := range 500 {
				key := prefix + strconv.Itoa(i)
				var pushErr, setErr error
				var both sync.WaitGroup
				both.Go(func() { pushErr = rdb.RPush(ctx, key, "a").Err() })
				both.Go(func() {
					if i%2 == 0 {
						setErr = other.Set(ctx, key, "v", 0).Err()
						return
					}
					_, setErr = other.Pipelined(ctx, func(p redis.Pipeliner) error { return p.MSet(ctx, key, "v").Err() })
				})
				both.Wait()
				require.True(t, (pushErr == nil) != (setErr == nil), "%v, %v", pushErr, setErr)
				if pushErr == nil {
					lists++
				} else {
					sets++
				}
				require.EqualValues(t, 1, rdb.Exists(ctx, key).Val())
				require.NoError(t, rdb.Del(ctx, key).Err())
			}
			t.Logf("%d lists, %d strings", lists, sets)
		})
	}
}

// A command that is too long for a script is refused where it could make a second thing of a key.
func TestHookRefusesWhatNoScriptCanCarry(t *testing.T) {
	t.Parallel()
	realServers(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb := hookOn(t, server, "q*")
		members := make([]any, 6998)
		for i := range members {
			members[i] = i
		}
		assert.EqualValues(t, 6998, rdb.SAdd(ctx, "q", members...).Val())
		err := rdb.SAdd(ctx, "q", append(members, "more")...).Err()
		assert.ErrorIs(t, err, shardedlist.ErrUnsupported)
		assert.ErrorContains(t, err, "7000 words")
	})
}

// go-redis's typed commands read the replies of commands that a script carries out.
func TestHookedCommandsFillTypedReplies(t *testing.T) {
	eachComparison(t, func(d *comparison) {
		d.setUp()
		ctx := context.Background()
		for _, together := range []func(redis.UniversalClient, context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){
			redis.UniversalClient.Pipelined, redis.UniversalClient.TxPipelined,
		} {
			key := func(name string) string { return d.args("sharded", "@"+name)[0].(string) }
			_, err := together(d.hooked, ctx, func(p redis.Pipeliner) error {
				p.ZIncrBy(ctx, key("z"), 0.5, "a")
				p.HSet(ctx, key("h"), "f", "w")
				return nil
			})
			require.NoError(d.t, err)
			assert.Equal(d.t, map[string]string{"f": "w", "g": "2"}, d.hooked.HGetAll(ctx, key("h")).Val())
			assert.Equal(d.t, []any{"w", nil}, d.hooked.HMGet(ctx, key("h"), "f", "none").Val())
			scores := d.hooked.ZUnionWithScores(ctx, redis.ZStore{Keys: []string{key("z"), key("set")}}).Val()
			assert.Len(d.t, scores, 2)
			streams, err := d.hooked.XRead(ctx, &redis.XReadArgs{Streams: []string{key("x"), key("n"), "0", "0"}, Block: -1}).Result()
			require.NoError(d.t, err)
			assert.Equal(d.t, map[string]any{"f": "v"}, streams[0].Messages[0].Values)
			assert.True(d.t, d.hooked.SetNX(ctx, key("n"), 1, time.Minute).Val())
			assert.False(d.t, d.hooked.SetNX(ctx, key("n"), 1, time.Minute).Val())
			assert.ErrorIs(d.t, d.hooked.Get(ctx, key("n")+"none").Err(), redis.Nil)
			require.NoError(d.t, d.hooked.Del(ctx, key("n")).Err())
		}
	})
}

// Faults in the arguments are found as Redis finds them, and in its order: before or after the key's type, and timeouts by the rules of C.
func TestHookedFaultsAreThoseOfRedis(t *testing.T) {
	redistest.LongOnly(t)
	eachComparison(t, func(d *comparison) {
		lines := []string{
			"blmpop x 1 @L up", "blmpop -1 1 @L left count x", "blmpop 1 0 @L left", "blmpop 1 1 @L up count 0", "blmpop 1 1 @s up", "lmpop 1 @s up", "lmpop 1 @s left count 0",
			"blmove @L @s up left x", "blmove @L @s left left x", "brpoplpush @s @L x", "blpop @s x", "lmove @s @L up left", "lpop @s x", "lpop @s 0", "lpop @s -1", "lpop @n 0", "lpop @L 0 0",
			"lrange @s x 0", "lindex @s x", "lindex @n x", "lset @s x v", "lset @n x v", "linsert @s beside a b", "lrem @s x a", "ltrim @s 0 x", "lpos @s 2 rank 0", "lpos @s 2 count -1",
			"lpos @s 2 maxlen -1", "lpos @s 2 bad 1", "lpos @s 2 rank", "lpushx @s a", "expire @s x", "expire @L x", "expire @L 1 nx xx", "rename @s", "copy @s @n db", "copy @s @s db x",
		}
		for _, timeout := range []string{
			"0x1", "0x1p-10", "0X.8", "1_0", "0x_1", "-inf", "nan", "-1e400", "1e5000", "-1e5000", "1e-5000", "1.", ".001", ".", "1e", "0x", "0b1", "0o1",
			"+.001", "-0", "-0.0001", "-1", "0.0001", "1e3x", "010", "00.001", "١",
		} {
			lines = append(lines, "blpop @L "+timeout, "blmpop "+timeout+" 1 @L left")
		}
		for _, timeout := range []string{"inf", "+inf", "infinity", "INF", "1e400", "1e4000", "9.3e18", "9223372036854775", "9223372036854776"} {
			if d.kind == redistest.Valkey {
				lines = append(lines, "blpop @L "+timeout, "blmpop "+timeout+" 1 @L left")
				continue
			}
			err := d.hooked.Do(d.t.Context(), d.args("sharded", "blpop @L "+timeout)...).Err()
			assert.EqualError(d.t, err, "ERR timeout is out of range", "Redis 7.0 takes %s for a negative number, or for none too large", timeout)
		}
		for _, line := range lines {
			d.same(line)
		}
	})
}
