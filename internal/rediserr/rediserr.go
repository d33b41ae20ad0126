// Package rediserr has the errors of Redis that the library returns itself, with the texts of Redis.
//
// The package knows texts. It does not know when they apply.
package rediserr

// Error is an error that the server would reply with to a command that the library does not send, because the error is known.
type Error string

func (e Error) Error() string { return string(e) }

// RedisError implements redis.Error.
func (e Error) RedisError() {}

// Errors in Redis's words.
const (
	NoSuchKey  Error = "ERR no such key"
	Index      Error = "ERR index out of range"
	Syntax     Error = "ERR syntax error"
	Count      Error = "ERR count should be greater than 0"
	NumKeys    Error = "ERR numkeys should be greater than 0"
	NotInteger Error = "ERR value is not an integer or out of range"
	Positive   Error = "ERR value is out of range, must be positive"
	SameObject Error = "ERR source and destination objects are the same"
	WrongType  Error = "WRONGTYPE Operation against a key holding the wrong kind of value"
	CrossSlot  Error = "CROSSSLOT Keys in request don't hash to the same slot"
	Aborted    Error = "EXECABORT Transaction discarded because of previous errors."
)

// Unknown is the error of a command that the server does not have, with the first 128 bytes of its words.
func Unknown(words []string) Error {
	shown := ""
	for _, word := range words[1:] {
		if rest := 128 - len(shown); rest > 0 {
			shown += "'" + word[:min(rest, len(word))] + "' "
		}
	}
	return Error("ERR unknown command '" + words[0] + "', with args beginning with: " + shown)
}

// WrongNumber is the error of a command with too few or too many arguments.
func WrongNumber(command string) Error {
	return Error("ERR wrong number of arguments for '" + command + "' command")
}
