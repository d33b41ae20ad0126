package shardedlist

import (
	"context"
	"encoding"
	"fmt"
	"net"
	"time"
)

// A push with more values or bytes than this is sent in several atomic parts.
const (
	maxCallValues = 1 << 18
	maxCallBytes  = 64 << 20
)

// LPush inserts the values at the left end, one after the other, so that the last one becomes the leftmost, and returns
// the length of the list after it: LPUSH.
//
// Values are what go-redis takes: strings, byte slices, numbers, bools, times, durations, encoding.BinaryMarshaler, and a
// lone []string or []any for its elements. There is no value that may not be pushed.
//
// It is atomic, whatever number of shards the values fill: all of them or none, next to each other. A call with more than
// 262,144 values or 64 MiB is split into atomic parts of at most that size; an error then comes with the length after the
// last part that was pushed. It costs O(values).
//
// It returns ErrNoValues or ErrValue, with nothing sent, ErrWrongType or ErrLayout for a list that is not one of ours, and
// the server's own errors. An error that the server replied with, out of memory for one, changed nothing. After a failed
// connection, go-redis repeats the push up to Options.MaxRetries times, as it does LPUSH, and may so push twice.
func (l *ShardedList) LPush(ctx context.Context, values ...any) (length int64, err error) {
	length, err = l.push(ctx, left, values)
	return length, l.wrap("lpush", err)
}

// RPush is LPush at the right end, where the last value becomes the rightmost: RPUSH.
func (l *ShardedList) RPush(ctx context.Context, values ...any) (length int64, err error) {
	length, err = l.push(ctx, right, values)
	return length, l.wrap("rpush", err)
}

func (l *ShardedList) push(ctx context.Context, end side, values []any) (length int64, err error) {
	values, err = l.encode(ctx, values)
	if err != nil {
		return 0, err
	}
	capacity, err := l.creationCapacity(ctx)
	if err != nil {
		return 0, err
	}
	for len(values) > 0 {
		part := values[:callSize(values)]
		args := append(make([]any, 0, 2+len(part)), string(end), capacity)
		reply, err := l.run(ctx, pushScript, append(args, part...)...)
		if err != nil {
			return length, err
		}
		length = reply.(int64)
		values = values[len(part):]
	}
	return length, nil
}

// callSize is how many of the values go into the next call: as many as the bounds allow, and one at least.
func callSize(values []any) int {
	bytes := 0
	for i, value := range values {
		switch value := value.(type) {
		case string:
			bytes += len(value)
		case []byte:
			bytes += len(value)
		}
		if i == maxCallValues || i > 0 && bytes > maxCallBytes {
			return i
		}
	}
	return len(values)
}

// encode makes sure, before anything is sent, that go-redis will be able to encode every value. What go-redis encodes by
// itself stays as it is.
func (l *ShardedList) encode(ctx context.Context, values []any) ([]any, error) {
	if len(values) == 1 && !isScalar(values[0]) {
		// go-redis spreads a lone slice, map or struct; a command that is never sent tells how.
		values = l.rdb.Pipeline().RPush(ctx, "", values...).Args()[2:]
	}
	if len(values) == 0 {
		return nil, ErrNoValues
	}
	var encoded []any // a copy, made when a value has to change: the slice is the caller's
	for i, value := range values {
		if value == nil || isScalar(value) {
			continue
		}
		var binary []byte
		switch value := value.(type) {
		case encoding.BinaryMarshaler:
			var err error
			if binary, err = value.MarshalBinary(); err != nil {
				return nil, fmt.Errorf("%w: value %d, a %T: %w", ErrValue, i, value, err)
			}
		case net.IP:
			binary = value
		default:
			return nil, fmt.Errorf("%w: value %d, a %T, does not implement encoding.BinaryMarshaler", ErrValue, i, value)
		}
		if encoded == nil {
			encoded = append(encoded, values...)
		}
		encoded[i] = binary
	}
	if encoded == nil {
		return values, nil
	}
	return encoded, nil
}

// isScalar tells whether go-redis encodes a value by itself and cannot fail to.
func isScalar(value any) bool {
	switch value.(type) {
	case string, []byte, *string, bool, *bool, float32, float64, *float32, *float64,
		int, int8, int16, int32, int64, *int, *int8, *int16, *int32, *int64,
		uint, uint8, uint16, uint32, uint64, uintptr, *uint, *uint8, *uint16, *uint32, *uint64, *uintptr,
		time.Time, *time.Time, time.Duration, *time.Duration:
		return true
	}
	return false
}
