package main

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// direct sends commands to a server as they are, and reads replies as they are: on one connection, or, to a cluster, on any.
type direct struct {
	open   func() (client redis.UniversalClient, send func(ctx context.Context, cmd redis.Cmder) error)
	client redis.UniversalClient
	sender func(ctx context.Context, cmd redis.Cmder) error
}

// newDirect connects to where another client connects to, in that version of the protocol.
func newDirect(like redis.UniversalClient, protocol int) *direct {
	d := &direct{}
	d.open = func() (redis.UniversalClient, func(ctx context.Context, cmd redis.Cmder) error) {
		if cluster, ok := like.(*redis.ClusterClient); ok {
			options := *cluster.Options()
			options.Protocol, options.ReadTimeout, options.MaxRetries, options.DialerRetries = protocol, -1, -1, 1
			client := redis.NewClusterClient(&options)
			return client, client.Process
		}
		options := *like.(*redis.Client).Options()
		options.Protocol, options.ReadTimeout, options.MaxRetries, options.DialerRetries = protocol, -1, -1, 1
		client := redis.NewClient(&options)
		return client, client.Conn().Process
	}
	d.client, d.sender = d.open()
	return d
}

func (d *direct) close() { _ = d.client.Close() }

// send sends a command, and returns its reply, which may be an error of the server's. Once ctx ends, the connection is closed, as nothing
// else ends a command that waits on it.
func (d *direct) send(ctx context.Context, words []string) (reply, error) {
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	r, err := d.once(ctx, args)
	if cluster, ok := d.client.(*redis.ClusterClient); ok && err == nil && r.kind == failure && strings.HasPrefix(r.text, "MOVED ") {
		cluster.ReloadState(ctx)
		r, err = d.once(ctx, args)
	}
	if err != nil {
		d.close()
		d.client, d.sender = d.open()
	}
	return r, err
}

func (d *direct) once(ctx context.Context, args []any) (reply, error) {
	cmd := redis.NewRawCmd(ctx, args...)
	ended := make(chan error, 1)
	go func() { ended <- d.sender(ctx, cmd) }()
	select {
	case err := <-ended:
		if err != nil {
			return reply{}, err
		}
	case <-ctx.Done():
		d.close()
		<-ended
		return reply{}, ctx.Err()
	}
	return parseReply(cmd.Val())
}
