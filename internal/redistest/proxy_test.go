package redistest

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
