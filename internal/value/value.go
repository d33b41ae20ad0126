// Package value encodes the values of pushes and edits by the rules of go-redis.
//
// The package knows which Go values go-redis can send, and how it encodes them. It does not know what they are used for.
package value

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	// ErrNone is returned if there are no values.
	ErrNone = errors.New("no values")
	// ErrEncoding is returned for a value that go-redis cannot encode.
	ErrEncoding = errors.New("value cannot be encoded")

	errNotMarshaler = errors.New("it does not implement encoding.BinaryMarshaler")
)

// Spread is Each for the values of a push, of which there must be at least one. It replaces a lone slice with its elements.
func Spread(rdb redis.UniversalClient, values []any) ([]any, error) {
	if len(values) == 1 && !isScalar(values[0]) {
		// go-redis spreads a lone slice, map or struct. A command that is never sent shows how.
		values = rdb.Pipeline().RPush(context.Background(), "", values...).Args()[2:]
	}
	if len(values) == 0 {
		return nil, ErrNone
	}
	return Each(values)
}

// Each returns the values in a form that go-redis can always encode, so that an invalid value fails before anything is sent. It
// copies values that the caller may change later. It does not change the caller's slice.
func Each(values []any) ([]any, error) {
	var encoded []any
	for i, v := range values {
		if _, same := v.(string); same {
			continue
		}
		safe, err := encode(v)
		if err != nil {
			return nil, fmt.Errorf("%w: value %d, a %T: %w", ErrEncoding, i, v, err)
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

// encode returns a value that go-redis can always encode. It shares no memory with the caller, who may change the original
// after giving up a push that is sent later.
func encode(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	case nil:
		return "", nil
	}
	if isScalar(v) {
		if pointer := reflect.ValueOf(v); pointer.Kind() == reflect.Pointer && !pointer.IsNil() {
			return pointer.Elem().Interface(), nil
		}
		return v, nil
	}
	switch v := v.(type) {
	case encoding.BinaryMarshaler:
		binary, err := v.MarshalBinary()
		return string(binary), err
	case net.IP:
		return string(v), nil
	}
	return nil, errNotMarshaler
}

// isScalar reports whether go-redis can always encode a value without a marshaler.
func isScalar(v any) bool {
	switch v.(type) {
	case string, []byte, *string, bool, *bool, float32, float64, *float32, *float64,
		int, int8, int16, int32, int64, *int, *int8, *int16, *int32, *int64,
		uint, uint8, uint16, uint32, uint64, uintptr, *uint, *uint8, *uint16, *uint32, *uint64, *uintptr,
		time.Time, *time.Time, time.Duration, *time.Duration:
		return true
	}
	return false
}

// scalarSize stands for the size of a number or a time, which is always short.
const scalarSize = 32

// Size returns the approximate size of a value in bytes.
func Size(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return scalarSize
}

// Text returns a value as go-redis encodes it, or "" if it cannot.
func Text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	encoded, err := encode(v)
	if err != nil {
		return ""
	}
	switch v := encoded.(type) {
	case string:
		return v
	case bool:
		if v {
			return "1"
		}
		return "0"
	case float32:
		return strconv.FormatFloat(float64(v), 'f', -1, 64)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case time.Duration:
		return strconv.FormatInt(int64(v), 10)
	}
	return fmt.Sprint(encoded)
}

// Part returns how many of the values go into one operation, and their bytes: as many as the limits allow, and at least one.
func Part(values []any, maxValues, maxBytes int) (count, bytes int) {
	for i, v := range values {
		more := Size(v)
		if i == maxValues || i > 0 && bytes+more > maxBytes {
			return i, bytes
		}
		bytes += more
	}
	return len(values), bytes
}
