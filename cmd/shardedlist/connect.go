package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
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
	return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error {
		list, err := shardedlist.New(rdb, name, options...)
		if err != nil {
			return err
		}
		err = work(ctx, list)
		if errors.Is(err, shardedlist.ErrWrongType) {
			return a.explained(ctx, rdb, cmd.Name(), []string{name}, err)
		}
		return err
	})
}

// onServer runs work on the server that the user chose.
func (a *app) onServer(cmd *cobra.Command, work func(context.Context, redis.UniversalClient) error) error {
	rdb, _, err := a.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	return work(cmd.Context(), rdb)
}

// connect returns a client for the server that the user chose, and its address as messages may show it.
func (a *app) connect(ctx context.Context) (rdb redis.UniversalClient, hosts string, err error) {
	source, address := a.chosenAddress()
	return connect(ctx, source, address)
}

// chosenAddress returns the address of the server that the user chose, and the flag or variable that holds it.
func (a *app) chosenAddress() (source, address string) {
	if a.address != "" {
		return "--redis", a.address
	}
	return "REDIS_URL", cmp.Or(os.Getenv("REDIS_URL"), defaultAddress)
}

// connect returns a client for the server at the address, once the server has answered a PING, and the hosts or the socket in the
// address, which messages may show. source is the flag or variable that holds the address.
func connect(ctx context.Context, source, address string) (rdb redis.UniversalClient, hosts string, err error) {
	rdb, hosts, err = newClient(source, address)
	if err != nil {
		return nil, "", err
	}
	if err := rdb.Ping(ctx).Err(); err != nil {
		_ = rdb.Close()
		return nil, "", unreachable(hosts, strings.Contains(address, "master_name="), err)
	}
	if single, ok := rdb.(*redis.Client); ok {
		return clusterIfSo(ctx, single), hosts, nil
	}
	return rdb, hosts, nil
}

// newClient returns the client that fits the address: for a master behind Sentinel, for a cluster, or for one server.
//
// The client does not retry a command whose connection failed, so reads from a dead server fail fast. The list itself
// retries pushes and pops, and applies each exactly once. Nor does it tell the server what library it is: that needs a permission.
//
// What is wrong with an address is not said: any part of it may be the password, or a part of the password. The errors of net/url
// and of go-redis quote it.
func newClient(source, address string) (rdb redis.UniversalClient, hosts string, err error) {
	badAddress := usagef("%s is no server address: want redis://USER:PASSWORD@HOST:PORT/DATABASE, with special bytes as %%XX, "+
		"or another form in shardedlist --help", source)
	u, ok := parseAddress(address)
	if !ok {
		return nil, "", badAddress
	}
	query := u.Query()
	hosts = strings.Join(append([]string{cmp.Or(u.Host, "localhost")}, query["addr"]...), ",")
	if u.Scheme == "unix" {
		hosts = u.Path
	}
	switch {
	case query.Has("master_name"):
		options, err := redis.ParseFailoverURL(u.String())
		if err != nil {
			return nil, "", badAddress
		}
		options.MaxRetries, options.DialerRetries, options.DisableIdentity = -1, 1, true
		return redis.NewFailoverClient(options), hosts, nil
	case query.Has("addr"):
		options, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, "", badAddress
		}
		options.MaxRetries, options.DialerRetries, options.DisableIdentity = -1, 1, true
		return redis.NewClusterClient(options), hosts, nil
	}
	options, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, "", badAddress
	}
	options.MaxRetries, options.DialerRetries, options.DisableIdentity = -1, 1, true
	return redis.NewClient(options), hosts, nil
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
		Addrs:           []string{options.Addr},
		DisableIdentity: options.DisableIdentity,
		ClientName:      options.ClientName,
		Username:        options.Username,
		Password:        options.Password,
		Protocol:        options.Protocol,
		TLSConfig:       options.TLSConfig,
		DialTimeout:     options.DialTimeout,
		ReadTimeout:     options.ReadTimeout,
		WriteTimeout:    options.WriteTimeout,
		PoolSize:        options.PoolSize,
		MaxRetries:      options.MaxRetries,
		DialerRetries:   options.DialerRetries,
	})
}

// parseAddress parses a URL or a short form of one: HOST:PORT, the path of a socket, or the HOST:PORT list of a cluster.
//
// It is strict, so that no part of a password is taken for a host or a path, which messages show: an @ belongs to the user only,
// and hosts are names or IP addresses.
func parseAddress(address string) (u *url.URL, ok bool) {
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
		return nil, false
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Opaque != "" || strings.Contains(address, "#") || strings.Contains(u.EscapedPath()+u.RawQuery, "@") {
		return nil, false
	}
	switch {
	case u.Scheme == "unix":
		return u, u.Host == "" && !query.Has("addr")
	case query.Has("addr") && strings.Trim(u.Path, "/") != "": // go-redis ignores it
		return nil, false
	}
	for _, host := range append(query["addr"], u.Host) {
		if !hostPort.MatchString(host) {
			return nil, false
		}
	}
	return u, true
}

// hostPort is a host and a port, each of which may be missing.
var hostPort = regexp.MustCompile(`^([\pL\pN._-]*|\[[0-9A-Fa-f:.]+(%[\w.-]+)?\])(:[0-9]{1,5})?$`)

// unreachable explains why the first command to the server, or to Sentinel, failed.
func unreachable(hosts string, sentinel bool, err error) error {
	if netErr, ok := errors.AsType[*net.OpError](err); ok && netErr.Op == "dial" {
		err = netErr.Err // the message already has the address
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("timeout")
	}
	switch {
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"):
		hint := "redis://user:password@host"
		if sentinel {
			hint += "; those of the master with &username=USER&password=PASSWORD"
		}
		return fmt.Errorf("%s: %w Set them with %s", hosts, err, hint)
	case redis.HasErrorPrefix(err, ""):
		return fmt.Errorf("%s: %w", hosts, err)
	}
	return fmt.Errorf("cannot connect to %s: %w; choose another server with --redis or REDIS_URL", hosts, err)
}
