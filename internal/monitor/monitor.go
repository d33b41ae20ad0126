// Package monitor reads what a server does, from MONITOR: a record by the server's own clock, for tests and benchmarks.
package monitor

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Command is a command that a server has carried out.
type Command struct {
	At       float64 // the Unix time in seconds
	InScript bool    // it follows the call of its script
	Args     []string
}

// Watch calls each for every command of the server, in their order, until stop is called: for all that came before. stop returns an
// error if the record is not complete.
func Watch(addr string, each func(Command)) (stop func() error, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReader(conn)
	if _, err = conn.Write([]byte("MONITOR\r\n")); err == nil {
		var reply string
		if reply, err = lines.ReadString('\n'); err == nil && !strings.HasPrefix(reply, "+OK") {
			err = errors.New(strings.TrimSpace(reply))
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	last, ended := uuid.NewString(), make(chan error, 1)
	go func() { ended <- read(lines, last, each) }()
	return func() error {
		defer conn.Close()
		if err := echo(addr, last); err != nil {
			return err
		}
		return <-ended
	}, nil
}

// echo makes the server carry out a command that tells read to end.
func echo(addr, last string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("ECHO " + last + "\r\n")); err != nil {
		return err
	}
	_, err = bufio.NewReader(conn).ReadString('\n')
	return err
}

func read(lines *bufio.Reader, last string, each func(Command)) error {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		c, err := parse(line)
		if err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		if len(c.Args) == 2 && c.Args[1] == last {
			return nil
		}
		each(c)
	}
}

// parse reads a line such as
//
//	+1690000000.123456 [0 lua] "ZADD" "key" "1" "member"
func parse(line string) (c Command, err error) {
	stamp, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "+"), " ")
	client, command, _ := strings.Cut(rest, "] ")
	if c.At, err = strconv.ParseFloat(stamp, 64); err != nil {
		return c, err
	}
	c.InScript = strings.HasSuffix(client, " lua")
	for command != "" {
		quoted, err := strconv.QuotedPrefix(command)
		if err != nil {
			return c, err
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return c, err
		}
		c.Args, command = append(c.Args, word), strings.TrimPrefix(command[len(quoted):], " ")
	}
	return c, nil
}
