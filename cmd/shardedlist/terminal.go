package main

import (
	"os"

	"golang.org/x/term"
)

// defaultWidth is the width of lines where no terminal says how wide it is.
const defaultWidth = 80

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// terminalWidth returns the number of columns of the stream, if it is a terminal that knows it.
func terminalWidth(stream any) (columns int, ok bool) {
	file, ok := stream.(*os.File)
	if !ok {
		return 0, false
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	return columns, err == nil && columns > 0
}

// outputWidth returns the number of columns for pictures on standard output.
func (a *app) outputWidth() int {
	if columns, ok := terminalWidth(a.stdout); ok {
		return columns
	}
	return defaultWidth
}
