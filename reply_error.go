package shardedlist

// replyError is an error that the server would reply with, to what is therefore not sent.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (e replyError) RedisError() {}

// Errors in Redis's words.
const (
	errNoSuchKey  replyError = "ERR no such key"
	errIndex      replyError = "ERR index out of range"
	errSyntax     replyError = "ERR syntax error"
	errCount      replyError = "ERR count should be greater than 0"
	errNotInteger replyError = "ERR value is not an integer or out of range"
	errSameObject replyError = "ERR source and destination objects are the same"
	errWrongType  replyError = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errCrossSlot  replyError = "CROSSSLOT Keys in request don't hash to the same slot"
	errAborted    replyError = "EXECABORT Transaction discarded because of previous errors."
)
