// Package demo runs an example.
package demo

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Main runs an example on the server at REDIS_URL, or else on an embedded one, and ends the program with exit code 1 if it fails. On a
// server of yours, the example leaves its keys behind.
func Main(run func(ctx context.Context, rdb redis.UniversalClient, out io.Writer) error) {
	if err := onServer(run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func onServer(run func(ctx context.Context, rdb redis.UniversalClient, out io.Writer) error) error {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		server, err := miniredis.Run()
		if err != nil {
			return err
		}
		defer server.Close()
		url = "redis://" + server.Addr()
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return fmt.Errorf("REDIS_URL is not the address of a server") // the error has the password
	}
	rdb := redis.NewClient(options)
	defer func() { _ = rdb.Close() }()
	return run(context.Background(), rdb, os.Stdout)
}
