package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
)

const defaultAddress = "redis://127.0.0.1:6379"

// onList runs work on the named list, on the server that the user chose.
func (a *app) onList(cmd *cobra.Command, name string, work func(context.Context, *shardedlist.ShardedList) error,
	options ...shardedlist.Option,
) error {
	ctx := cmd.Context()
	rdb, err := connect(ctx, cmp.Or(a.address, os.Getenv("REDIS_URL"), defaultAddress))
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	list, err := shardedlist.New(rdb, name, options...)
	if err != nil {
		return err
	}
	return work(ctx, list)
}

// connect returns a client for the server at the address, once the server has answered a PING.
func connect(ctx context.Context, address string) (redis.UniversalClient, error) {
	rdb, err := newClient(address)
	if err != nil {
		return nil, err
	}
	if err := rdb.Ping(ctx).Err(); err != nil {
		_ = rdb.Close()
		return nil, unreachable(address, err)
	}
	if single, ok := rdb.(*redis.Client); ok {
		return clusterIfSo(ctx, single), nil
	}
	return rdb, nil
}

// newClient returns the client that fits the address: for a master behind Sentinel, for a cluster, or for one server.
//
// The client does not retry a command whose connection failed, so reads from a dead server fail fast. The list itself
// retries pushes and pops, and applies each exactly once.
func newClient(address string) (redis.UniversalClient, error) {
	u, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	switch query := u.Query(); {
	case query.Has("master_name"):
		options, err := redis.ParseFailoverURL(u.String())
		if err != nil {
			return nil, badAddress(err)
		}
		options.MaxRetries, options.DialerRetries = -1, 1
		return redis.NewFailoverClient(options), nil
	case query.Has("addr"):
		options, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, badAddress(err)
		}
		options.MaxRetries, options.DialerRetries = -1, 1
		return redis.NewClusterClient(options), nil
	}
	options, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, badAddress(err)
	}
	options.MaxRetries, options.DialerRetries = -1, 1
	return redis.NewClient(options), nil
}

// clusterIfSo returns a client for the whole cluster if the server is a cluster node.
func clusterIfSo(ctx context.Context, node *redis.Client) redis.UniversalClient {
	options := node.Options()
	info, _ := node.Info(ctx, "cluster").Result() // on an error, assume a single server
	if !strings.Contains(info, "cluster_enabled:1") || options.Network == "unix" {
		return node
	}
	_ = node.Close()
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:         []string{options.Addr},
		ClientName:    options.ClientName,
		Username:      options.Username,
		Password:      options.Password,
		Protocol:      options.Protocol,
		TLSConfig:     options.TLSConfig,
		DialTimeout:   options.DialTimeout,
		ReadTimeout:   options.ReadTimeout,
		WriteTimeout:  options.WriteTimeout,
		PoolSize:      options.PoolSize,
		MaxRetries:    options.MaxRetries,
		DialerRetries: options.DialerRetries,
	})
}

// parseAddress parses a URL or a short form of one: HOST:PORT, the path of a socket, or the HOST:PORT list of a cluster.
func parseAddress(address string) (*url.URL, error) {
	switch first, others, several := strings.Cut(address, ","); {
	case strings.Contains(address, "://"):
	case strings.HasPrefix(address, "/"):
		address = "unix://" + address
	case several:
		address = "redis://" + first + "?" + url.Values{"addr": strings.Split(others, ",")}.Encode()
	default:
		address = "redis://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		// The error would show the address, and so the password.
		return nil, usagef("invalid server address: want a URL like redis://user:password@host:6379/0, with special bytes as %%XX")
	}
	return u, nil
}

func badAddress(err error) error {
	return usagef("invalid server address: %s", strings.TrimPrefix(err.Error(), "redis: "))
}

// unreachable explains why the first command to the server failed.
func unreachable(address string, err error) error {
	host := hostOf(address)
	if netErr, ok := errors.AsType[*net.OpError](err); ok && netErr.Op == "dial" {
		err = netErr.Err // the message already has the address
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("timeout")
	}
	switch {
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"):
		return fmt.Errorf("%s: %w Set them with redis://user:password@host", host, err)
	case redis.HasErrorPrefix(err, ""):
		return fmt.Errorf("%s: %w", host, err)
	}
	return fmt.Errorf("cannot connect to %s: %w; choose another server with --redis or REDIS_URL", host, err)
}

// hostOf returns the part of an address that messages may show. It omits the password.
func hostOf(address string) string {
	u, err := parseAddress(address)
	if err != nil {
		return "the server"
	}
	return strings.Join(append([]string{cmp.Or(u.Host, u.Path)}, u.Query()["addr"]...), ",")
}
