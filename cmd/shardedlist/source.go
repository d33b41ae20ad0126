package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
)

// input is the source of the lines.
type input struct {
	io.Reader
	name    string
	total   int64 // bytes if inBytes, else lines; or unknown
	inBytes bool
	close   func()
}

func (d *demo) open(ctx context.Context, args []string, generated bool) (input, error) {
	switch {
	case len(args) == 1 && generated:
		return input{}, usagef("FILE and --lines exclude each other")
	case len(args) == 1 && args[0] != "-":
		file, err := os.Open(args[0])
		if err != nil {
			return input{}, err
		}
		return input{interruptible{ctx, file}, args[0], remaining(file), true, func() { _ = file.Close() }}, nil
	}
	stdin := bufio.NewReader(interruptible{ctx, d.app.stdin})
	if len(args) == 1 || !generated && isPiped(d.app.stdin) && !isEmpty(stdin) {
		return input{stdin, "standard input", remaining(d.app.stdin), true, func() {}}, nil
	}
	name := fmt.Sprintf("generated access log, %s lines", thousands(int64(d.lines)))
	return input{newAccessLog(d.lines), name, int64(d.lines), false, func() {}}, nil
}

// isPiped reports whether standard input is a file or a pipe. Without a terminal, as in a cron job, it may also be a device
// like /dev/null.
func isPiped(stdin io.Reader) bool {
	file, ok := stdin.(*os.File)
	if !ok {
		return stdin != nil
	}
	stat, err := file.Stat()
	return err == nil && (stat.Mode().IsRegular() || stat.Mode()&os.ModeNamedPipe != 0)
}

func isEmpty(stdin *bufio.Reader) bool {
	_, err := stdin.Peek(1)
	return err == io.EOF
}
