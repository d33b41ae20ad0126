package redistest

import (
	"cmp"
	"net"
	"strconv"
)

// A Placement is where and how a process of a server runs. The zero Placement is
// beside the test process.
type Placement struct {
	// IP is the process's address, which the test process can connect to. The
	// default is that of the loopback interface.
	IP string

	// Via is a command that replaces itself by the command in its arguments, as
	// env and nsenter do.
	Via []string
}

func (s Placement) ip() string { return cmp.Or(s.IP, "127.0.0.1") }

// config returns the directives for a process with this placement.
func (s Placement) config() []string {
	config := []string{"bind " + s.ip()}
	if s.IP != "" {
		config = append(config, "protected-mode no")
	}
	return config
}

func (s Placement) addr(port int) string { return net.JoinHostPort(s.ip(), strconv.Itoa(port)) }
