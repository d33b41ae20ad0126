package web

import (
	"net/url"
	"strconv"
)

// Display returns a text as it can be shown and typed: itself, or quoted as in Go if a byte of it would not be seen, such as a mark that
// turns the direction of what follows.
func Display(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// idOf returns a name, which may be any bytes, as it is in the address of a page.
func idOf(name string) string { return url.QueryEscape(name) }
