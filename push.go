package shardedlist

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
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
// the server's own errors. An error that the server replied with, out of memory for one, changed nothing.
//
// It is done once: if a reply is lost, it is repeated under its number until the deadline of ctx, or for ten seconds if it has
// none, and for thirty at the most. If it is given up before its outcome is known, the error is ErrOutcomeUnknown; a ctx that ends
// while a push is in flight does so only if the server does not answer for another half a second. Callers at the same end that find
// a push in flight share the next one; each has a result of its own.
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
	if _, err = l.creationCapacity(ctx); err != nil {
		return 0, err
	}
	commits := &l.rpush
	if end == left {
		commits = &l.lpush
	}
	var shortfall error
	for len(values) > 0 {
		size, bytes := callSize(values)
		r := newRequest()
		r.values, r.count, r.bytes = values[:size], size, bytes
		err := commits.do(ctx, r)
		if !isDone(err) {
			return length, err
		}
		if err != nil {
			shortfall = err
		}
		length, values = r.length, values[size:]
		requests.Put(r)
	}
	return length, shortfall
}

var pushes = kind{
	join: func(l *ShardedList, end side, requests []*request) operation {
		count := 0
		for _, r := range requests {
			count += r.count
		}
		o := l.operation(pushScript, 2+count)
		o.args = append(o.args, string(end), l.capacity.Load())
		for _, r := range requests {
			o.args = append(o.args, r.values...)
		}
		return o
	},
	share: func(requests []*request, reply any) []string {
		length := reply.(int64)
		for _, r := range slices.Backward(requests) {
			r.length = length
			length -= int64(r.count)
		}
		return nil
	},
	lost: ErrOutcomeUnknown,
}

// callSize is how many of the values go into the next call, and their bytes: as many as the bounds allow, and one at least.
func callSize(values []any) (size, bytes int) {
	for i, value := range values {
		more := 32
		switch value := value.(type) {
		case string:
			more = len(value)
		case []byte:
			more = len(value)
		}
		if i == maxCallValues || i > 0 && bytes+more > maxCallBytes {
			return i, bytes
		}
		bytes += more
	}
	return len(values), bytes
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
	return encodeEach(values)
}

func encodeEach(values []any) ([]any, error) {
	var encoded []any // a copy, made when a value has to change: the slice is the caller's
	for i, value := range values {
		if _, same := value.(string); same {
			continue
		}
		safe, err := encodeOne(value)
		if err != nil {
			return nil, fmt.Errorf("%w: value %d, a %T: %w", ErrValue, i, value, err)
		}
		if encoded == nil {
			encoded = slices.Clone(values)
		}
		encoded[i] = safe
	}
	if encoded == nil {
		return values, nil
	}
	return encoded, nil
}

// encodeOne returns the value as go-redis encodes it without fail, and so that the caller may change it after a push that it
// has given up: that may still be sent.
func encodeOne(value any) (any, error) {
	switch value := value.(type) {
	case string:
		return value, nil
	case []byte:
		return string(value), nil
	case nil:
		return "", nil
	}
	if isScalar(value) {
		if pointer := reflect.ValueOf(value); pointer.Kind() == reflect.Pointer && !pointer.IsNil() {
			return pointer.Elem().Interface(), nil
		}
		return value, nil
	}
	switch value := value.(type) {
	case encoding.BinaryMarshaler:
		binary, err := value.MarshalBinary()
		return string(binary), err
	case net.IP:
		return string(value), nil
	}
	return nil, errNotMarshaler
}

var errNotMarshaler = errors.New("it does not implement encoding.BinaryMarshaler")

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
