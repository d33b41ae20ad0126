package oneslot

import (
	"context"
	"strconv"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
)

var infoScript = script.Load("info")

// infoSamples is the number of shards that Info measures.
const infoSamples = 16

// Info describes how the list is stored.
func (l *List) Info(ctx context.Context) (layout.Info, error) {
	info, shards, err := l.meta(ctx)
	if err == nil {
		info.Bytes, err = l.estimateBytes(ctx, info, shards)
	}
	return info, err
}

// meta is Info without the bytes. It also returns the prefix of the shards' keys.
func (l *List) meta(ctx context.Context) (info layout.Info, shards string, err error) {
	reply, err := l.read(infoScript).Run(ctx)
	if err != nil {
		return info, "", err
	}
	values := reply.([]any)
	var n [6]int64
	for i := range n {
		n[i] = values[i].(int64)
	}
	return layout.Info{
		First: n[0], Last: n[1], Capacity: n[2], Length: n[3], Slot: l.keys.Slot(), Armed: n[4] == 1, Unswept: n[5],
		Newcomers: values[7].(int64), State: layout.State(values[9].(string)),
		Unsplit: values[10].(int64),
	}, values[6].(string), nil
}

// estimateBytes measures the end shards and some shards evenly between them, and extrapolates.
func (l *List) estimateBytes(ctx context.Context, info layout.Info, prefix string) (int64, error) {
	shards := info.Shards()
	samples := min(shards, infoSamples)
	if samples == 0 {
		return 0, nil
	}
	keys := make([]string, samples)
	for i := range keys {
		if keys[i] = l.config.Name; prefix != "" { // else it is a plain list
			keys[i] = prefix + strconv.FormatInt(info.First+int64(i)*(shards-1)/max(1, samples-1), 10)
		}
	}
	sizes, err := script.MemoryUsage(ctx, l.Client(), keys)
	if err != nil {
		return 0, err
	}
	var ends, between, counted int64
	for i, bytes := range sizes {
		if i == 0 || i == len(sizes)-1 {
			ends += bytes
		} else {
			between += bytes
			counted++
		}
	}
	return ends + between*(shards-2)/max(1, counted), nil
}
