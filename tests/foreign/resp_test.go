package foreign

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// readRequests reads commands, in either of their forms, until the connection ends.
func readRequests(in *bufio.Reader, requests chan<- []any) error {
	for {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		var request []any
		if count, ok := strings.CutPrefix(line, "*"); ok {
			if request, err = readBulks(in, count); err != nil {
				return err
			}
		} else {
			for _, word := range strings.Fields(line) {
				request = append(request, word)
			}
		}
		if len(request) > 0 {
			requests <- request
		}
	}
}

func readBulks(in *bufio.Reader, count string) ([]any, error) {
	n, err := strconv.Atoi(count)
	if err != nil {
		return nil, err
	}
	var bulks []any
	for range n {
		line, err := readLine(in)
		if err != nil {
			return nil, err
		}
		size, ok := strings.CutPrefix(line, "$")
		if !ok {
			return nil, fmt.Errorf("%q instead of a bulk string", line)
		}
		length, err := strconv.Atoi(size)
		if err != nil {
			return nil, err
		}
		bulk := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(in, bulk); err != nil {
			return nil, err
		}
		bulks = append(bulks, string(bulk[:length]))
	}
	return bulks, nil
}

func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// reply writes what a call came to.
func (p *peer) reply(c *call) {
	switch err := c.Err(); {
	case err == redis.Nil:
		p.null(repliesArray(c))
	case err != nil:
		p.error(err)
	case c.raw != nil:
		_, _ = p.out.Write(c.raw)
	case repliesStatus[c.Name()]:
		p.status(fmt.Sprint(c.Val()))
	default:
		p.value(c.Val())
	}
}

var repliesStatus = set("lset", "ltrim", "rename", "type")

// repliesArray tells whether the call replies with an array, if with anything.
func repliesArray(c *call) bool {
	switch c.Name() {
	case "lpop", "rpop":
		return len(c.Args()) > 2
	case "lmpop":
		return true
	}
	return blocking[c.Name()]
}

func (p *peer) value(value any) {
	switch value := value.(type) {
	case nil:
		p.null(false)
	case int64:
		p.integer(value)
	case string:
		p.bulk(value)
	case []any:
		p.length('*', len(value))
		for _, element := range value {
			p.value(element)
		}
	default:
		p.error(fmt.Errorf("the gateway cannot write a %T", value))
	}
}

func (p *peer) null(array bool) {
	switch {
	case p.resp3:
		p.line("_")
	case array:
		p.line("*-1")
	default:
		p.line("$-1")
	}
}

func (p *peer) status(text string)      { p.line("+" + text) }
func (p *peer) integer(n int64)         { p.line(":" + strconv.FormatInt(n, 10)) }
func (p *peer) length(kind byte, n int) { p.line(string(kind) + strconv.Itoa(n)) }
func (p *peer) line(text string)        { _, _ = p.out.WriteString(text + "\r\n") }

func (p *peer) bulk(text string) {
	p.length('$', len(text))
	p.line(text)
}

// error writes an error. One that is not the server's has no code, so it gets one.
func (p *peer) error(err error) {
	text := strings.NewReplacer("\r", " ", "\n", " ").Replace(err.Error())
	var replied redis.Error
	if code, _, _ := strings.Cut(text, " "); !errors.As(err, &replied) && code != strings.ToUpper(code) {
		text = "ERR " + text
	}
	p.line("-" + text)
}
