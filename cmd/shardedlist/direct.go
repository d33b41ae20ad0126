package main

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// direct sends commands to a server as they are, and reads replies as they are: on one connection, or, to a cluster, on any.
type direct struct {
	open func() line
	line
}

// line is where commands go. To close the client interrupts one.
type line struct {
	client  redis.UniversalClient
	process func(ctx context.Context, cmd redis.Cmder) error
}

// newDirect connects to where another client connects to, in that version of the protocol.
func newDirect(like redis.UniversalClient, protocol int) *direct {
	d := &direct{}
	d.open = func() line {
		if cluster, ok := like.(*redis.ClusterClient); ok {
			options := *cluster.Options()
			options.Protocol, options.ReadTimeout, options.MaxRetries, options.DialerRetries = protocol, -1, -1, 1
			client := redis.NewClusterClient(&options)
			return line{client, client.Process}
		}
		return newLine(*like.(*redis.Client).Options(), protocol)
	}
	d.line = d.open()
	return d
}

// newLine is one connection.
func newLine(options redis.Options, protocol int) line {
	options.Protocol, options.ReadTimeout, options.MaxRetries, options.DialerRetries = protocol, -1, -1, 1
	client := redis.NewClient(&options)
	return line{client, client.Conn().Process}
}

func (l line) close() { _ = l.client.Close() }

// send sends a command, and returns its reply, which may be an error of the server's. Once ctx ends, the connection is closed, as nothing
// else ends a command that waits on it.
func (d *direct) send(ctx context.Context, words []string) (reply, error) {
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	r, err := d.once(ctx, args)
	if cluster, ok := d.client.(*redis.ClusterClient); ok {
		r, err = follow(ctx, cluster, r, err, args)
	}
	if err != nil {
		d.close()
		d.line = d.open()
	}
	return r, err
}

// once sends a command once.
func (l line) once(ctx context.Context, args []any) (reply, error) {
	cmd := redis.NewRawCmd(ctx, args...)
	ended := make(chan error, 1)
	go func() { ended <- l.process(ctx, cmd) }()
	select {
	case err := <-ended:
		if err != nil {
			return reply{}, err
		}
	case <-ctx.Done():
		l.close()
		<-ended
		return reply{}, ctx.Err()
	}
	return parseReply(cmd.Val())
}

const mostRedirections = 8

// follow sends a command again to the nodes that replies to it name: MOVED, and, while a slot moves, ASK.
func follow(ctx context.Context, cluster *redis.ClusterClient, r reply, err error, args []any) (reply, error) {
	for range mostRedirections {
		words := strings.Fields(r.text)
		if err != nil || r.kind != failure || len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
			break
		}
		r, err = redirect(ctx, cluster, words[2], words[0] == "ASK", args)
	}
	return r, err
}

// redirect sends a command to the node at an address.
func redirect(ctx context.Context, cluster *redis.ClusterClient, address string, ask bool, args []any) (reply, error) {
	cluster.ReloadState(ctx) // soon
	node, err := cluster.MasterForKey(ctx, "")
	if err != nil {
		return reply{}, err
	}
	options := *node.Options()
	options.Addr = address
	l := newLine(options, options.Protocol)
	defer l.close()
	if ask {
		if r, err := l.once(ctx, []any{"asking"}); err != nil || r.kind == failure {
			return r, err
		}
	}
	return l.once(ctx, args)
}
