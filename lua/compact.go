package lua

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Compact returns a source without its comments, blank lines and needless spaces. Statements stay on lines of their own.
func Compact(source string) string { return write(scan(source)) }

// Minify returns what Compact does, without the functions that the source does not use, and with short names for its local
// variables and for what it calls most: what a pipeline sends. No name may stand for a local variable and for a global one.
func Minify(source string) string {
	tokens := scan(source)
	for {
		used := dropUnused(tokens)
		if len(used) == len(tokens) {
			break
		}
		tokens = used
	}
	tokens = nameCalls(tokens)
	shorten(tokens)
	return write(tokens)
}

// token is a word, a number, a string, an operator, or the end of a line.
type token struct {
	text   string
	isName bool // of a variable, global or local: no field, key or keyword
}

var keywords = func() map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq("and break do else elseif end false for function if in local nil not or repeat return then true until while") {
		words[word] = true
	}
	return words
}()

// scan returns the tokens of a source. No string or comment of the scripts has several lines.
func scan(source string) []token {
	tokens := make([]token, 0, len(source)/3)
	for source != "" {
		text := source[:tokenLength(source)]
		source = source[len(text):]
		if !strings.HasPrefix(text, "--") && text != " " && text != "\t" {
			tokens = append(tokens, token{text: text})
		}
	}
	var inside []string // what has begun and not ended: brackets and blocks
	for i := range tokens {
		switch text := tokens[i].text; {
		case opens(text):
			inside = append(inside, text)
		case closes(text):
			inside = inside[:len(inside)-1]
		case isOfWord(text[0]) && !isDigit(text[0]) && !keywords[text]:
			before, behind := near(tokens, i, -1), near(tokens, i, 1)
			isKey := behind == "=" && (before == "{" || before == ",") && len(inside) > 0 && inside[len(inside)-1] == "{"
			tokens[i].isName = before != "." && before != ":" && !isKey
		}
	}
	return tokens
}

// tokenLength returns the length of the first token of a source, which may be a comment or a space.
func tokenLength(source string) int {
	length := func(goesOn func(i int) bool) int {
		i := 1
		for i < len(source) && goesOn(i) {
			i++
		}
		return i
	}
	switch c := source[0]; {
	case strings.HasPrefix(source, "--"):
		return length(func(i int) bool { return source[i] != '\n' })
	case isDigit(c):
		return length(func(i int) bool { return isOfWord(source[i]) || source[i] == '.' })
	case isOfWord(c):
		return length(func(i int) bool { return isOfWord(source[i]) })
	case c == '\'' || c == '"':
		return 1 + length(func(i int) bool { return source[i] != c || source[i-1] == '\\' })
	case c == '.':
		return length(func(i int) bool { return source[i] == '.' })
	case strings.IndexByte("=~<>", c) >= 0 && strings.HasPrefix(source[1:], "="):
		return 2
	}
	return 1
}

// opens tells whether a token begins what another ends; "for" and "while" have a "do".
func opens(text string) bool {
	return slices.Contains([]string{"(", "[", "{", "function", "if", "do", "repeat"}, text)
}
func closes(text string) bool { return slices.Contains([]string{")", "]", "}", "end", "until"}, text) }

// near returns the next token before the i-th, or behind it, that is not the end of a line.
func near(tokens []token, i, step int) string {
	for i += step; i >= 0 && i < len(tokens); i += step {
		if tokens[i].text != "\n" {
			return tokens[i].text
		}
	}
	return ""
}

// dropUnused drops local functions that only they themselves use.
func dropUnused(tokens []token) []token {
	uses := countNames(tokens)
	used := make([]token, 0, len(tokens))
	for i := 0; i < len(tokens); i++ {
		if tokens[i].text == "local" && tokens[i+1].text == "function" {
			end := endOf(tokens, i+1)
			name, own := tokens[i+2].text, 0
			for _, t := range tokens[i:end] {
				if t.isName && t.text == name {
					own++
				}
			}
			if own == uses[name] {
				i = end - 1
				continue
			}
		}
		used = append(used, tokens[i])
	}
	return used
}

// endOf returns the index behind the block that begins with the i-th token.
func endOf(tokens []token, i int) int {
	depth := 0
	for ; ; i++ {
		if opens(tokens[i].text) {
			depth++
		} else if closes(tokens[i].text) {
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}

// nameCalls gives functions of the server, and of Lua, local variables, if they are called so often that this saves space.
func nameCalls(tokens []token) []token {
	for _, function := range []string{"redis.call", "redis.pcall", "redis.error_reply", "string.sub", "string.match", "string.format",
		"table.concat", "table.insert", "math.max", "math.min", "math.floor", "tonumber", "ipairs", "type"} {
		words := scan(function)
		isCall := func(i int) bool {
			same := i+len(words) < len(tokens) && tokens[i].isName && tokens[i+len(words)].text == "("
			for j := 0; same && j < len(words); j++ {
				same = tokens[i+j].text == words[j].text
			}
			return same
		}
		calls := 0
		for i := range tokens {
			if isCall(i) {
				calls++
			}
		}
		if calls*(len(function)-2) < len("local ab=\n"+function) {
			continue
		}
		name := token{text: strings.ReplaceAll(function, ".", "_") + "_", isName: true}
		named := make([]token, 0, len(tokens)+8)
		named = append(append(append(named, token{text: "local"}, name, token{text: "="}), words...), token{text: "\n"})
		for i := 0; i < len(tokens); i++ {
			if isCall(i) {
				named = append(named, name)
				i += len(words) - 1
			} else {
				named = append(named, tokens[i])
			}
		}
		tokens = named
	}
	return tokens
}

func countNames(tokens []token) map[string]int {
	counts := map[string]int{}
	for _, t := range tokens {
		if t.isName {
			counts[t.text]++
		}
	}
	return counts
}

// shorten gives the local variables short names, the shortest to those that are used most. A name of several variables stays that: so each
// hides those that it hid.
func shorten(tokens []token) {
	locals, counts := localNames(tokens), countNames(tokens)
	names := slices.SortedFunc(maps.Keys(locals), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	short, next := map[string]string{}, 0
	for _, name := range names {
		for {
			short[name] = shortName(next)
			next++
			if counts[short[name]] == 0 && !keywords[short[name]] || locals[short[name]] {
				break
			}
		}
	}
	for i, t := range tokens {
		if t.isName && locals[t.text] {
			tokens[i].text = short[t.text]
		}
	}
}

// localNames returns the names of local variables: behind "local" and "for", and those of parameters.
func localNames(tokens []token) map[string]bool {
	locals := map[string]bool{}
	for i := range tokens {
		switch tokens[i].text {
		case "local", "for":
			for j := i + 1; tokens[j].isName || tokens[j].text == "," || tokens[j].text == "function"; j++ {
				if tokens[j].isName {
					locals[tokens[j].text] = true
				}
			}
		case "function":
			for j := i + 1; tokens[j].text != ")"; j++ {
				if before := near(tokens, j, -1); tokens[j].isName && (before == "(" || before == ",") {
					locals[tokens[j].text] = true
				}
			}
		}
	}
	return locals
}

// shortName returns the n-th of the shortest names.
func shortName(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if n < len(letters) {
		return letters[n : n+1]
	}
	n -= len(letters)
	return shortName(n/len(letters)) + letters[n%len(letters):][:1]
}

// write returns the text of tokens.
func write(tokens []token) string {
	var out strings.Builder
	last := byte('\n')
	for _, t := range tokens {
		if t.text == "\n" && last == '\n' {
			continue
		}
		if first := t.text[0]; isOfWord(last) && isOfWord(first) || last == '.' && first == '.' || last == '-' && first == '-' || isDigit(last) && first == '.' {
			out.WriteByte(' ')
		}
		out.WriteString(t.text)
		last = t.text[len(t.text)-1]
	}
	if last != '\n' {
		out.WriteByte('\n')
	}
	return out.String()
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isOfWord(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}
