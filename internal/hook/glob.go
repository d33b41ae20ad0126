package hook

import "strings"

// Match returns a function that reports whether a key matches any of the patterns of KEYS.
func Match(patterns ...string) func(key string) bool {
	return func(key string) bool {
		for _, pattern := range patterns { // slices.ContainsFunc would allocate, for each command
			if globMatches(pattern, key) {
				return true
			}
		}
		return false
	}
}

// globMatches reports whether a key matches a pattern of Redis's KEYS, byte by byte.
func globMatches(pattern, key string) bool {
	star, after := -1, 0 // the last * and where in the key what follows it is tried
	p, k := 0, 0
	for k < len(key) {
		if p < len(pattern) && pattern[p] == '*' {
			star, after = p, k
			if p++; p == len(pattern) {
				return true
			}
		} else if size, ok := globMatchesByte(pattern[p:], key[k]); ok {
			p += size
			k++
		} else if star >= 0 {
			after++
			p, k = star+1, after
		} else {
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// globMatchesByte matches one byte with the start of the pattern, and returns the length of that start.
func globMatchesByte(pattern string, b byte) (size int, ok bool) {
	switch {
	case pattern == "":
		return 0, false
	case pattern[0] == '?':
		return 1, true
	case pattern[0] == '[':
		return globMatchesClass(pattern, b)
	case pattern[0] == '\\' && len(pattern) > 1:
		return 2, pattern[1] == b
	}
	return 1, pattern[0] == b
}

// globMatchesClass matches one byte with a class in brackets. As in Redis, a class that is not closed ends with the pattern.
func globMatchesClass(class string, b byte) (size int, ok bool) {
	i := 1
	negated := i < len(class) && class[i] == '^'
	if negated {
		i++
	}
	for ; i < len(class) && class[i] != ']'; i++ {
		from, to := class[i], class[i]
		switch {
		case from == '\\' && i+1 < len(class):
			i++
			from, to = class[i], class[i]
		case i+2 < len(class) && class[i+1] == '-':
			i += 2
			from, to = min(from, class[i]), max(from, class[i])
		}
		ok = ok || from <= b && b <= to
	}
	return min(i+1, len(class)), ok != negated
}
