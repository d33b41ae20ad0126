package redistest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAProxyFailsATestThatItsFaultsSpare(t *testing.T) {
	server := Start(t, Embedded)
	for _, test := range []struct {
		mode     string
		asked    Faults
		cut      bool // a ping, while the faults are set
		cutAfter bool
		fails    bool
	}{
		{"", Faults{}, false, false, false},
		{"", Faults{CutReply: 1}, true, false, false},
		{"", Faults{CutReply: 1e-9}, false, false, true},
		{"all", Faults{}, false, false, false},
		{"all", Faults{CutReply: 1e-9}, true, true, false},
		{"all", Faults{DropReply: 1e-9}, true, true, true}, // it is another fault that struck
		{"none", Faults{CutReply: 1}, false, false, true},
	} {
		t.Run(fmt.Sprintf("%q %+v", test.mode, test.asked), func(t *testing.T) {
			t.Setenv(FaultsVariable, test.mode)
			judged := &judged{TB: t}
			proxy := NewProxy(judged)
			rdb := server.Client(t, func(o *redis.UniversalOptions) { o.Dialer, o.MaxRetries = proxy.Dial, -1 })
			require.NoError(t, rdb.Ping(t.Context()).Err())
			proxy.Set(test.asked)
			assert.Equal(t, test.cut, rdb.Ping(t.Context()).Err() != nil)
			proxy.Set(Faults{})
			assert.Equal(t, test.cutAfter, rdb.Ping(t.Context()).Err() != nil)
			judged.end()
			assert.Equal(t, test.fails, judged.failed)
		})
	}
}

// judged is a test whose end and failure another one observes.
type judged struct {
	testing.TB
	end    func()
	failed bool
}

func (j *judged) Cleanup(end func())    { j.end = end }
func (j *judged) Errorf(string, ...any) { j.failed = true }

func TestASeedBreaksTheSameConnectionsAtTheSameReply(t *testing.T) {
	t.Parallel()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()

	// survived tells how many replies each connection brought.
	survived := func(seed uint64) (replies [20]int) {
		proxy := NewSeededProxy(t, seed)
		proxy.Set(Faults{CutReply: 0.05, CutInReply: 0.05, CutRequest: 0.05})
		for i := range replies {
			conn, err := proxy.Dial(t.Context(), "tcp", echo.Addr().String())
			require.NoError(t, err)
			ping := []byte("ping")
			for reply := make([]byte, len(ping)); ; replies[i]++ {
				if _, err := conn.Write(ping); err != nil {
					break
				}
				if _, err := io.ReadFull(conn, reply); err != nil {
					break
				}
				require.True(t, bytes.Equal(ping, reply))
			}
			_ = conn.Close()
		}
		return replies
	}
	first := survived(1)
	assert.Equal(t, first, survived(1))
	assert.NotEqual(t, first, survived(2))
}
