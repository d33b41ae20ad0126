package main

import (
	"context"
	"io"
	"log"

	"github.com/RichardKnop/machinery/v2"
	"github.com/RichardKnop/machinery/v2/backends/null"
	machineryredis "github.com/RichardKnop/machinery/v2/brokers/redis"
	"github.com/RichardKnop/machinery/v2/config"
	"github.com/RichardKnop/machinery/v2/locks/eager"
	machinerylog "github.com/RichardKnop/machinery/v2/log"
	"github.com/RichardKnop/machinery/v2/tasks"
)

// machineryBroker keeps no results, the fastest that machinery can be. Its workers share a goroutine that pops one task at a time.
func machineryBroker(s *server, key string) (*broker, error) {
	machinerylog.Set(log.New(io.Discard, "", 0))
	options := &config.Config{DefaultQueue: "machinery:" + key, Redis: &config.RedisConfig{}, NoUnixSignals: true}
	tasksServer := machinery.NewServer(options, machineryredis.NewGR(options, []string{s.addr}, 0), null.New(), eager.New())
	produce := func(ctx context.Context, payload string) error {
		_, err := tasksServer.SendTaskWithContext(ctx, &tasks.Signature{Name: "move", Args: []tasks.Arg{{Type: "string", Value: payload}}})
		return err
	}
	return &broker{
		name:    "machinery",
		produce: produce,
		fill: func(ctx context.Context, payloads []string) error {
			return together(len(payloads), func(i int) error { return produce(ctx, payloads[i]) })
		},
		consume: func(_ context.Context, got func(string)) (func() error, error) {
			err := tasksServer.RegisterTask("move", func(payload string) error {
				got(payload)
				return nil
			})
			if err != nil {
				return nil, err
			}
			worker, ended := tasksServer.NewWorker("", queueWorkers), make(chan error, 1)
			worker.LaunchAsync(ended)
			return func() error {
				worker.Quit() // closes the client, too
				return <-ended
			}, nil
		},
		close: func() {},
	}, nil
}
