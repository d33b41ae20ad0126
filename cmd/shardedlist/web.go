package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist/internal/web"
)

const (
	webAddress       = "127.0.0.1:7380"
	passwordVariable = "SHARDEDLIST_WEB_PASSWORD"
	shortestPassword = 8
)

func (a *app) webCommand() *cobra.Command {
	var listen string
	var hosts []string
	var allowChanges bool
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Serve a page that shows all lists, live",
		Long: `Serve a page that shows all lists, live, until it is interrupted. Print its address.

It only reads, unless --allow-changes lets it delete, adopt, restore, trim and push. While
nobody looks at it, it sends nothing to the server.

It listens on the loopback interface. To listen on another address, set a password, of at
least eight bytes, in the variable SHARDEDLIST_WEB_PASSWORD: the page asks for it, with any
user name. It does not encrypt: put a proxy with TLS before it, or use an SSH tunnel.

It answers under localhost, any IP address, and the names that --host allows. /metrics has
what it shows as metrics for Prometheus.`,
		Example: `  shardedlist web
  shardedlist web --listen 127.0.0.1:8000 --allow-changes
  SHARDEDLIST_WEB_PASSWORD=... shardedlist web --listen :7380 --host lists.example.com`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			config := web.Config{Hosts: hosts, AllowChanges: allowChanges, Password: os.Getenv(passwordVariable)}
			if err := cmp.Or(checkListen(listen, config.Password), checkHosts(hosts)); err != nil {
				return err
			}
			return a.serveWeb(cmd.Context(), listen, config)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", webAddress, "`address` to listen on, HOST:PORT")
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "`name` under which browsers may ask for the page; may be repeated")
	cmd.Flags().BoolVar(&allowChanges, "allow-changes", false, "let the page change lists")
	return cmd
}

// checkListen checks that who is not on this machine needs a password.
func checkListen(listen, password string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return usagef("invalid address to listen on: want HOST:PORT")
	}
	if password != "" && len(password) < shortestPassword {
		return usagef("the password in %s is too short: want at least %d bytes", passwordVariable, shortestPassword)
	}
	ip, err := netip.ParseAddr(host)
	if isLoopback := err == nil && ip.IsLoopback() || host == "localhost"; !isLoopback && password == "" {
		return usagef("to listen on other than the loopback interface, set a password in %s", passwordVariable)
	}
	return nil
}

// checkHosts checks that browsers can ask for the page under these names: with a port, say, none would ever match.
func checkHosts(hosts []string) error {
	for _, host := range hosts {
		if host == "" || strings.ContainsAny(host, ":/*@ ") {
			return usagef("invalid --host: want a name, without a scheme and a port")
		}
	}
	return nil
}

// pageAddress returns an address under which a browser on this machine finds the page.
func pageAddress(listener net.Listener) string {
	address := *listener.Addr().(*net.TCPAddr)
	if address.IP.IsUnspecified() {
		address.IP = net.IPv4(127, 0, 0, 1)
	}
	return "http://" + address.String()
}

// serveWeb serves the page until ctx ends.
func (a *app) serveWeb(ctx context.Context, listen string, config web.Config) error {
	var err error
	if config.Client, config.Address, err = a.connect(ctx); err != nil {
		return err
	}
	defer func() { _ = config.Client.Close() }()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	page := web.New(config)
	defer page.Close()
	server := &http.Server{
		Handler: page, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
	}
	if err := a.printReply(reply{kind: status, text: pageAddress(listener)}); err != nil {
		return errors.Join(err, listener.Close())
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}
