// Package value encodes what callers push, by go-redis's own rules.
//
// It knows which Go values go-redis can send and how it writes them. It does not know what becomes of them.
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
	// ErrNone is returned for no values at all.
	ErrNone = errors.New("no values")
	// ErrEncoding is returned for a value that go-redis cannot encode.
	ErrEncoding = errors.New("value cannot be encoded")

	errNotMarshaler = errors.New("it does not implement encoding.BinaryMarshaler")
)

// Spread is Each for the values of a push, of which there must be some. It replaces a lone slice by its elements.
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

// Each returns the values in a form that go-redis can always encode, so that one bad value fails before anything is sent. A value
// that the caller may change later is copied. The slice itself is the caller's, and stays as it is.
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

// encode returns a value that go-redis encodes without fail. It shares no memory with the caller's, who may change that after giving
// up a push that is still sent.
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

// isScalar reports whether go-redis encodes a value by itself and cannot fail to.
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

// scalarSize stands for the size of a number or a time, which is never long.
const scalarSize = 32

// Size returns about how many bytes a value takes.
func Size(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return scalarSize
}

// Text returns a value as go-redis writes it, or "" if it cannot.
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
