package queue

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Job is a job as a handler gets it, or as [Parse] reads it.
type Job struct {
	ID        string    // a UUID
	Payload   []byte    // as it was pushed
	Attempt   int       // 1 for the first; 0 if there was none yet
	PushedAt  time.Time // by the clock of the process that pushed it, in milliseconds; zero for a job that was not pushed by a queue
	LastError string    // why the last attempt failed, cut to 1 KiB; empty if none did
	Due       time.Time // of [Queue.Peek]: when a delayed job is due, or the lease of a leased one ends, by the clock of the server

	unique string // the hash of its unique key, or empty
	member string // in the sorted set of times, if it is leased
}

// An envelope is '\xffJ', flags, the id, the attempt, what the flags say, and the payload. lua/shared/jobs.lua reads it up to the attempt.
const (
	mark       = "\xffJ"
	flagsAt    = len(mark)
	idAt       = flagsAt + 1
	attemptAt  = idAt + 16
	headerSize = attemptAt + 2
	uniqueSize = 40 // of the hash of a unique key, in hex
	errorSize  = 1 << 10

	hasUnique = 1 << 0 // the hash of its unique key comes next
	hasError  = 1 << 1 // the last error comes next, behind its length in two bytes
)

// newJob returns a job that has not been pushed.
func newJob(payload any) (*Job, error) {
	var bytes []byte
	switch p := payload.(type) {
	case string:
		bytes = []byte(p)
	case []byte:
		bytes = p
	default:
		return nil, fmt.Errorf("%w: a %T is neither a string nor a []byte", ErrPayload, payload)
	}
	if len(bytes) > MaxPayload {
		return nil, fmt.Errorf("%w: %d bytes, and MaxPayload is %d; store it elsewhere, and push its key", ErrPayload, len(bytes), MaxPayload)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	return &Job{ID: id.String(), Payload: bytes}, nil
}

// envelope encodes the job.
func (j *Job) envelope() string {
	id := uuid.MustParse(j.ID)
	size, flags := headerSize+len(j.Payload), byte(0)
	reason := j.LastError[:min(len(j.LastError), errorSize)]
	if j.unique != "" {
		size, flags = size+uniqueSize, flags|hasUnique
	}
	if reason != "" {
		size, flags = size+2+len(reason), flags|hasError
	}
	e := append(append(append(make([]byte, 0, size), mark...), flags), id[:]...)
	e = binary.BigEndian.AppendUint16(e, uint16(j.Attempt))
	e = append(e, j.unique...)
	if reason != "" {
		e = append(binary.BigEndian.AppendUint16(e, uint16(len(reason))), reason...)
	}
	return string(append(e, j.Payload...))
}

// Parse reads an envelope: an element of the lists that [Queue.List] and [Queue.Dead] return. It returns ErrEnvelope for an element that
// no queue has written.
func Parse(element string) (*Job, error) {
	if len(element) < headerSize || element[:len(mark)] != mark || element[flagsAt]&^(hasUnique|hasError) != 0 {
		return nil, ErrEnvelope
	}
	id := uuid.UUID([]byte(element[idAt:attemptAt]))
	if version := id.Version(); id.Variant() != uuid.RFC4122 || version != 4 && version != 7 {
		return nil, ErrEnvelope
	}
	j := &Job{ID: id.String(), Attempt: int(element[attemptAt])<<8 | int(element[attemptAt+1])}
	if id.Version() == 7 {
		seconds, nanos := id.Time().UnixTime()
		j.PushedAt = time.Unix(seconds, nanos)
	}
	rest := element[headerSize:]
	if element[flagsAt]&hasUnique != 0 {
		if len(rest) < uniqueSize {
			return nil, ErrEnvelope
		}
		j.unique, rest = rest[:uniqueSize], rest[uniqueSize:]
	}
	if element[flagsAt]&hasError != 0 {
		if len(rest) < 2 || len(rest) < 2+(int(rest[0])<<8|int(rest[1])) {
			return nil, ErrEnvelope
		}
		size := int(rest[0])<<8 | int(rest[1])
		j.LastError, rest = rest[2:2+size], rest[2+size:]
	}
	j.Payload = []byte(rest)
	return j, nil
}
