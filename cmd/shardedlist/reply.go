package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// reply is what a server replies to a command, or what a sharded list replies in its place.
type reply struct {
	kind  byte // the first byte of the reply in the protocol, one of those below
	text  string
	parts []reply // of a map, the keys and values in turn
}

const (
	status   = '+'
	failure  = '-'
	integer  = ':'
	double   = ','
	boolean  = '#'
	bigInt   = '('
	bulk     = '$'
	verbatim = '='
	null     = '_'
	array    = '*'
	set      = '~'
	mapping  = '%'
	push     = '>'
)

// errReply is the error of bytes that are no reply of a server.
var errReply = errors.New("the server's reply is not one of its protocol")

// parseReply reads a reply in the protocol of Redis, version 2 or 3.
func parseReply(raw []byte) (reply, error) {
	r, rest, err := parseOne(raw)
	if err == nil && len(rest) > 0 {
		err = errReply
	}
	return r, err
}

func parseOne(raw []byte) (r reply, rest []byte, err error) {
	line, rest, found := bytes.Cut(raw, []byte("\r\n"))
	if !found || len(line) == 0 {
		return reply{}, nil, errReply
	}
	r = reply{kind: line[0], text: string(line[1:])}
	switch r.kind {
	case status, failure, integer, double, boolean, bigInt, null:
		return r, rest, nil
	}
	size, err := strconv.Atoi(r.text)
	switch {
	case err != nil:
		return reply{}, nil, errReply
	case size < 0:
		return reply{kind: null}, rest, nil
	}
	switch r.kind {
	case bulk, verbatim, '!':
		if len(rest) < size+2 {
			return reply{}, nil, errReply
		}
		r.text, rest = string(rest[:size]), rest[size+2:]
		if r.kind == '!' {
			r.kind = failure
		}
		if _, text, found := strings.Cut(r.text, ":"); found && r.kind == verbatim {
			r.text = text // behind its format
		}
		return r, rest, nil
	case mapping:
		size *= 2
	case array, set, push:
	default:
		return reply{}, nil, errReply
	}
	r.text = ""
	for range size {
		var part reply
		if part, rest, err = parseOne(rest); err != nil {
			return reply{}, nil, err
		}
		r.parts = append(r.parts, part)
	}
	return r, rest, nil
}

// replyOf is the reply that go-redis, or the hook, has read as this value. What is a status in it shows in the command only.
func replyOf(value any, isStatus bool) reply {
	switch value := value.(type) {
	case int64:
		return reply{kind: integer, text: strconv.FormatInt(value, 10)}
	case string:
		if isStatus {
			return reply{kind: status, text: value}
		}
		return reply{kind: bulk, text: value}
	case []any:
		r := reply{kind: array}
		for _, part := range value {
			r.parts = append(r.parts, replyOf(part, false))
		}
		return r
	case nil:
		return reply{kind: null}
	}
	return reply{kind: bulk, text: fmt.Sprint(value)}
}

// format is a way to print replies, as redis-cli has them.
type format int

const (
	raw    format = iota // bytes as they are, one element per line: for other programs
	pretty               // quoted and numbered: for people
	asJSON
)

// print writes a reply and what ends it.
func (f format) print(w *bufio.Writer, r reply, delimiter byte) {
	switch f {
	case raw:
		printRaw(w, r, delimiter)
		_ = w.WriteByte(delimiter)
	case pretty:
		printPretty(w, r, "")
	case asJSON:
		printJSON(w, r)
		_ = w.WriteByte('\n')
	}
}

func printRaw(w *bufio.Writer, r reply, delimiter byte) {
	switch r.kind {
	case null:
	case failure:
		_, _ = w.WriteString(r.text)
		_ = w.WriteByte('\n')
	case boolean:
		_, _ = w.WriteString(map[string]string{"t": "(true)"}[r.text])
		if r.text != "t" {
			_, _ = w.WriteString("(false)")
		}
	case mapping:
		for i, part := range r.parts {
			if i > 0 {
				_ = w.WriteByte([]byte{delimiter, ' '}[i%2])
			}
			printRaw(w, part, delimiter)
		}
	case array, set, push:
		for i, part := range r.parts {
			if i > 0 {
				_ = w.WriteByte(delimiter)
			}
			printRaw(w, part, delimiter)
		}
	default:
		_, _ = w.WriteString(r.text)
	}
}

var (
	empties    = map[byte]string{array: "(empty array)", mapping: "(empty hash)", set: "(empty set)", push: "(empty push)"}
	separators = map[byte]byte{array: ')', push: ')', mapping: '#', set: '~'}
)

// printPretty writes a reply in lines, of which all but the first begin with the indent.
func printPretty(w *bufio.Writer, r reply, indent string) {
	switch r.kind {
	case null:
		_, _ = w.WriteString("(nil)\n")
	case failure:
		fmt.Fprintf(w, "(error) %s\n", r.text)
	case integer:
		fmt.Fprintf(w, "(integer) %s\n", r.text)
	case double:
		fmt.Fprintf(w, "(double) %s\n", r.text)
	case boolean:
		fmt.Fprintf(w, "(%t)\n", r.text == "t")
	case bulk:
		fmt.Fprintf(w, "%s\n", quoted(r.text))
	case array, set, push, mapping:
		step := 1
		if r.kind == mapping {
			step = 2
		}
		width := len(strconv.Itoa(len(r.parts) / step))
		for i := 0; i < len(r.parts); i += step {
			if i > 0 {
				_, _ = w.WriteString(indent)
			}
			fmt.Fprintf(w, "%*d%c ", width, i/step+1, separators[r.kind])
			deeper := indent + strings.Repeat(" ", width+2)
			if r.kind == mapping {
				var key bytes.Buffer
				line := bufio.NewWriter(&key)
				printPretty(line, r.parts[i], deeper)
				_ = line.Flush()
				fmt.Fprintf(w, "%s => ", strings.TrimSuffix(key.String(), "\n"))
			}
			printPretty(w, r.parts[i+step-1], deeper)
		}
		if len(r.parts) == 0 {
			fmt.Fprintln(w, empties[r.kind])
		}
	default:
		fmt.Fprintf(w, "%s\n", r.text)
	}
}

// quoted quotes a string as redis-cli does, so that all of it is ASCII.
func quoted(text string) string {
	out := append(make([]byte, 0, len(text)+2), '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\\' || c == '"':
			out = append(out, '\\', c)
		case strings.IndexByte("\n\r\t\a\b", c) >= 0:
			out = append(out, '\\', "nrtab"[strings.IndexByte("\n\r\t\a\b", c)])
		case c >= ' ' && c <= '~':
			out = append(out, c)
		default:
			out = fmt.Appendf(out, `\x%02x`, c)
		}
	}
	return string(append(out, '"'))
}

func printJSON(w *bufio.Writer, r reply) {
	switch r.kind {
	case null:
		_, _ = w.WriteString("null")
	case integer, double, bigInt:
		_, _ = w.WriteString(r.text)
	case boolean:
		fmt.Fprint(w, r.text == "t")
	case failure:
		_, _ = w.WriteString("error:")
		_, _ = w.WriteString(jsonString(r.text))
	case array, set, push:
		_ = w.WriteByte('[')
		for i, part := range r.parts {
			if i > 0 {
				_ = w.WriteByte(',')
			}
			printJSON(w, part)
		}
		_ = w.WriteByte(']')
	case mapping:
		_ = w.WriteByte('{')
		for i := 0; i < len(r.parts); i += 2 {
			if i > 0 {
				_ = w.WriteByte(',')
			}
			_, _ = w.WriteString(jsonString(r.parts[i].text))
			_ = w.WriteByte(':')
			printJSON(w, r.parts[i+1])
		}
		_ = w.WriteByte('}')
	default:
		_, _ = w.WriteString(jsonString(r.text))
	}
}

// jsonString is the text as a JSON string, or, if it is not UTF-8, as {"base64":"…"}: no string could hold it.
func jsonString(text string) string {
	if !utf8.ValidString(text) {
		return `{"base64":"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"}`
	}
	out := append(make([]byte, 0, len(text)+2), '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\\' || c == '"':
			out = append(out, '\\', c)
		case strings.IndexByte("\n\r\t\f\b", c) >= 0:
			out = append(out, '\\', "nrtfb"[strings.IndexByte("\n\r\t\f\b", c)])
		case c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return string(append(out, '"'))
}
