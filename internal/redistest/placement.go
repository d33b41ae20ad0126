package redistest

import (
	"cmp"
	"net"
	"strconv"
)

// A Placement is where and how a process of a server runs. The zero Placement is beside the
// test process.
type Placement struct {
	// IP is the process's own address, if that is not the loopback interface's,
	// which the test process can connect to.
	IP string

	// Via is a command that runs the one given to it in its own place, without
	// becoming the parent, as env and nsenter do.
	Via []string
}

func (s Placement) ip() string { return cmp.Or(s.IP, "127.0.0.1") }

// config returns the directives that have the process take its placement.
func (s Placement) config() []string {
	config := []string{"bind " + s.ip()}
	if s.IP != "" {
		config = append(config, "protected-mode no")
	}
	return config
}

func (s Placement) addr(port int) string { return net.JoinHostPort(s.ip(), strconv.Itoa(port)) }
