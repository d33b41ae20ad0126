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

// onList has a command work on the list of the given name, on the server that the user chose.
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

// connect returns a client of the server at the address, which has answered.
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

// newClient returns a client that fits the address: for a master behind sentinels, for a cluster, or for one server.
//
// go-redis does not repeat a command whose connection failed, so that reads of a dead server fail fast. Pushes and pops are
// repeated by the list, which does each of them once.
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

// clusterIfSo returns a client of the whole cluster if the server is a node of one.
func clusterIfSo(ctx context.Context, node *redis.Client) redis.UniversalClient {
	options := node.Options()
	info, _ := node.Info(ctx, "cluster").Result() // a server that does not tell is taken for a single one
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

// parseAddress reads a URL, or what is short for one: a path to a socket, or the hosts and ports of a cluster.
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
		// Without the error, which repeats the address and so the password.
		return nil, usagef("the server's address is not a URL like redis://user:password@host:6379/0, with %%XX for special bytes")
	}
	return u, nil
}

func badAddress(err error) error {
	return usagef("the server's address is wrong: %s", strings.TrimPrefix(err.Error(), "redis: "))
}

// unreachable explains why the server at the address could not be talked to.
func unreachable(address string, err error) error {
	host := hostOf(address)
	if netErr, ok := errors.AsType[*net.OpError](err); ok && netErr.Op == "dial" {
		err = netErr.Err // the address is named already
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in time")
	}
	switch {
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"):
		return fmt.Errorf("%s: %w Name them as in redis://user:password@host", host, err)
	case redis.HasErrorPrefix(err, ""):
		return fmt.Errorf("%s: %w", host, err)
	}
	return fmt.Errorf("cannot reach a server at %s: %w; name another with --redis or REDIS_URL", host, err)
}

// hostOf is the part of an address that may be shown: without the password.
func hostOf(address string) string {
	u, err := parseAddress(address)
	if err != nil {
		return "the server"
	}
	return strings.Join(append([]string{cmp.Or(u.Host, u.Path)}, u.Query()["addr"]...), ",")
}
