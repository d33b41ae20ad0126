package web

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Display returns a text as it can be shown and typed: itself, or quoted as in Go if a byte of it would not be seen, such as a mark that
// turns the direction of what follows or a space at an end, or if it looks quoted.
func Display(text string) string {
	if strings.HasPrefix(text, `"`) || strings.TrimSpace(text) != text || strings.Contains(text, "  ") || strings.ContainsFunc(text, isHidden) {
		return strconv.QuoteToASCII(text)
	}
	return text
}

// isHidden reports whether a character is not seen, or could be any.
func isHidden(r rune) bool {
	return !strconv.IsPrint(r) || r == utf8.RuneError || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// idOf returns a name, which may be any bytes, as it is in the address of a page.
func idOf(name string) string { return url.QueryEscape(name) }
