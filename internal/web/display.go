package web

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Display returns a text as it can be shown and typed: itself, or quoted as in Go if a byte of it would not be seen, such as a mark that
// turns the direction of what follows, or if it looks quoted.
func Display(text string) string {
	isHidden := func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }
	if strings.HasPrefix(text, `"`) || strings.ContainsFunc(text, isHidden) {
		return strconv.Quote(text)
	}
	return text
}

// idOf returns a name, which may be any bytes, as it is in the address of a page.
func idOf(name string) string { return url.QueryEscape(name) }
