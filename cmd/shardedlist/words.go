package main

import "strconv"

// splitWords splits a line as redis-cli does: at spaces, outside of quotes. Double quotes have escapes such as \n and \xff; single
// quotes have \' only. It returns false if a quote does not end, or does not end its word.
func splitWords(line string) (words []string, ok bool) {
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return words, true
		}
		var word []byte
		for i < len(line) && !isSpace(line[i]) {
			quote := line[i]
			if quote != '"' && quote != '\'' {
				word = append(word, quote)
				i++
				continue
			}
			text, length := unquote(line[i:], quote)
			if i += length; length == 0 || i < len(line) && !isSpace(line[i]) {
				return nil, false
			}
			word = append(word, text...)
		}
		words = append(words, string(word))
	}
}

// unquote reads a text in quotes, and returns its length with the quotes, or 0 if it has no end.
func unquote(line string, quote byte) (text []byte, length int) {
	for i := 1; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			return text, i + 1
		case c != '\\' || i+1 == len(line) || quote == '\'' && line[i+1] != '\'':
			text = append(text, c)
			continue
		}
		i++
		if value, err := strconv.ParseUint(line[i+1:min(i+3, len(line))], 16, 8); line[i] == 'x' && quote == '"' && err == nil && i+3 <= len(line) {
			text, i = append(text, byte(value)), i+2
			continue
		}
		if control := map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'a': '\a'}[line[i]]; control != 0 && quote == '"' {
			text = append(text, control)
		} else {
			text = append(text, line[i])
		}
	}
	return nil, 0
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }
