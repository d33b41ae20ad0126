// Package layout defines what the public methods and the hook need of a list, however its elements are stored.
//
// There are two layouts. In oneslot, all keys of a list are in one hash slot; in spread, they are in many. Package detect finds out which
// of them a list has.
package layout

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
)

// List is a list in a layout. Methods that return an operation are described by the result of that operation.
type List interface {
	// Name returns the name of the list. Client returns its client.
	Name() string
	Client() redis.UniversalClient
	// Stats returns what counts what the list does.
	Stats() *stats.List
	// MayBeInPlace reports whether the list may be short, and all of it at its plain key. NotInPlace says that it was not a moment ago.
	MayBeInPlace() bool
	NotInPlace()
	// OnKey carries out commands that change the list as one operation, as they are, if the list is short and stays so. Its result is
	// their replies, a []any in which an error is that of a command; or nil if the list is not short, and nothing has been done. It is not
	// ok where commands are not to be carried out so.
	OnKey(commands []KeyCommand) (op session.Operation, ok bool)
	// Sibling returns the list of another name with the same options.
	Sibling(name string) List
	// Spread reports whether operations take several steps, so that they cannot be sent in a pipeline or a transaction: perhaps, and for sure.
	Spread() (maybe, surely bool)

	// Push and Pop share operations with other callers at the same end. Values must be encoded. Pop returns up to count
	// elements, and none from an empty list. A call above the limits of the layout is split into parts, and returns results and
	// errors up to the part that failed.
	Push(ctx context.Context, end End, values []any) (length int64, err error)
	Pop(ctx context.Context, end End, count int) ([]string, error)
	// BlockingPop waits for an element, and returns redis.Nil if the timeout is over.
	BlockingPop(ctx context.Context, end End, timeout time.Duration) (string, error)
	// Pushes and Pops return how requests at an end are combined into one operation. The caller must call Prepare before such a
	// push.
	Pushes(end End) *batch.Kind
	Pops(end End) *batch.Kind
	Prepare(ctx context.Context) error

	// PushX pushes encoded values onto a list that has elements. The result is the length, an int64.
	PushX(end End, values []any) session.Operation
	// Length has the number of elements, an int64.
	Length() session.Operation
	// Index has the element, a string, or nil.
	Index(index any) session.Operation
	// Range has the elements, a []string.
	Range(start, stop any) session.Operation
	// Positions takes the arguments of LPOS, and has its reply.
	Positions(args ...any) session.Operation
	// Set and Trim have "OK", Insert and Remove the int64 of LINSERT and LREM.
	Set(index, value any) session.Operation
	Insert(where, pivot, value any) session.Operation
	Remove(count int64, value any) session.Operation
	Trim(start, stop any) session.Operation

	// The next operations take the words of the command that they are for: where there is no list, it is carried out on the key instead, in
	// the same step, and the result is an OfKey. Without words, and on a spread list, it is not.

	// Exists and Delete have a bool: whether there is, or was, a list.
	Exists(key ...any) session.Operation
	Delete(key ...any) session.Operation
	// Expire has a bool: whether the expiry was set. Lifetime has a Lifetime.
	Expire(expiry Expiry, key ...any) session.Operation
	Lifetime(key ...any) session.Operation
	// Object has the reply of OBJECT for the list, and Memory the bytes that it takes, an int64, or nil if there is none.
	Object(key ...any) session.Operation
	Memory(key ...any) session.Operation

	// CountKeys carries out a command that counts keys, those of the lists among them, or has nil and has done nothing. If alone, it may
	// be what no pipeline can send.
	CountKeys(words []any, lists []List, alone bool) (session.Operation, error)
	// Transfer renames or copies the list, and has a bool: whether it did.
	Transfer(how Transfer, to List, replace bool) (session.Operation, error)

	// Watched returns the keys that WATCH of the list watches, the first of which is a hash, and Ends those that it watches besides, by the
	// field layout of that hash, read when they were watched: each write to the list changes one of them.
	Watched() []string
	Ends(layout string) ([]string, error)

	// Guard returns the script that carries out a command of another type, and Vacant an operation that fails where it must.
	Guard(g Guard) (script.Call, error)
	Vacant(g Guard) (session.Operation, error)
	// Reserved returns which of the keys have the form of those that lists are stored in: those that surely are such, and those that
	// are if there is a list that they belong to.
	Reserved(keys []string) (sure, maybe []string)

	// Script runs a script of the user's, which may push. The result is the reply of the script.
	Script(ctx context.Context, s Script) (session.Operation, error)

	// Move moves elements to another list. PopFirst pops from the first list that has any; this list is one of them. It returns
	// the position of that list among the distinct ones, counted from 1, and then the elements.
	Move(to List, move Move) (*blocking.Call, error)
	PopFirst(lists []List, end End, count int) (*blocking.Call, error)

	// AdoptStep moves elements of the plain list of the same name to the list, in a bounded step. It returns how many it has moved, and
	// how many are left to move.
	// The first step of several begins; later ones fail if RestoreStep has begun meanwhile.
	AdoptStep(ctx context.Context, begin bool, joins Joins) (moved, left int64, err error)
	// RestoreStep moves elements the other way, likewise.
	RestoreStep(ctx context.Context, begin bool, joins Joins) (moved, left int64, err error)
	// WatchKey finds out which end newcomers join, by watching the plain key for so long.
	WatchKey(ctx context.Context, limit time.Duration) (Joins, error)

	// All yields the elements from left to right, in bounded steps.
	All(ctx context.Context) iter.Seq2[string, error]
	Info(ctx context.Context) (Info, error)
	Check(ctx context.Context) error
	// Repair mends what it can of what Check finds. It returns what it has found and done, in words, and what Check finds then.
	Repair(ctx context.Context, how Repair) (report []string, err error)
	// DeleteStrays unlinks the shards that meta does not know, and returns their number.
	DeleteStrays(ctx context.Context) (int64, error)
}

// KeyCommand is a command on a list, whose reply is a number or a status: its name, the words behind the key, how many elements it adds at
// the most, and how many bytes the longest of them has.
type KeyCommand struct {
	Name    string
	Words   []any
	Adds    int
	Longest int
}

// Guard is a command of another type on keys that lists stand in for.
type Guard struct {
	Words   []any
	Keys    []string // its keys
	Written []string // those of them that it may write
	Lists   []List   // those that stand in for keys
	At      []int    // for each, where in Words its key is, counted from 1, or 0 if the command would replace what is there
	RESP    int      // the version in which it replies
}

// Script is a script of the user's with its keys and its encoded arguments. The scripts were made by script.LoadAround.
type Script struct {
	*script.Script
	Keys    []string
	Args    []any
	Creates bool // a push may create the list
}

// Errors of lists. Scripts reply with their codes.
var (
	ErrNegativeCount = errors.New("count is negative")
	ErrOtherClient   = errors.New("the lists are of different clients")
	ErrWrongType     = errors.New("a key of the list holds another type")
	ErrLayout        = errors.New("unknown layout")
	ErrBroken        = errors.New("list is broken")
	ErrPlainList     = errors.New("the list is in one slot: it is the plain list of its name")
	ErrSpread        = errors.New("the operation cannot be done on a list that is spread over many slots")
	ErrScript        = errors.New("the script ended with an error")
	ErrReversed      = errors.New("the other one of Adopt and Restore has been called meanwhile")
)

// ErrorOf returns the error above that a reply of the server stands for, or nil.
func ErrorOf(err error) error {
	switch {
	case err == nil || err == redis.Nil || !script.IsReply(err):
		return nil
	case script.IsWrongType(err):
		return ErrWrongType
	case redis.HasErrorPrefix(err, "BADLAYOUT "):
		return ErrLayout
	case redis.HasErrorPrefix(err, "BROKENLIST "):
		return ErrBroken
	case redis.HasErrorPrefix(err, "PLAINLIST "):
		return ErrPlainList
	case redis.HasErrorPrefix(err, "SPREADLIST "):
		return ErrSpread
	case redis.HasErrorPrefix(err, "REVERSED "):
		return ErrReversed
	}
	return nil
}

// End is an end of a list. The values are those of the scripts.
type End string

const (
	Left  End = "L"
	Right End = "R"
)

// Repair says how a list is repaired.
type Repair struct {
	Joins      Joining // where shards that no meta knows go, if the list has been begun anew
	Generation string  // which of them are the list, if there are those of several
	DryRun     bool    // only say what would be done
}

// Joining is where elements go that are found: before those of the list or after them.
type Joining string

const (
	Before Joining = "before"
	After  Joining = "after"
)

// Joins is the end that newcomers join, as lua/shared/join.lua has it, and why; or empty if that is not known.
type Joins string

const (
	PushedLeft  Joins = "1"
	PushedRight Joins = "2" // as any command puts them that does not know it
	PoppedRight Joins = "3"
	PoppedLeft  Joins = "4"
)

// ParseEnd parses "LEFT" or "RIGHT".
func ParseEnd(position string) (End, error) {
	switch strings.ToUpper(position) {
	case "LEFT":
		return Left, nil
	case "RIGHT":
		return Right, nil
	}
	return "", rediserr.Syntax
}

// Move says how elements move from one list to another.
type Move struct {
	From, To End
	Count    int
	Exactly  bool // Count elements or none
	OneByOne bool // which turns them around if both ends are the same; else they keep the order of the source
}

// ParseMove parses the arguments of LMOVEM.
func ParseMove(from, to string, args redis.LMoveMArgs) (Move, error) {
	m := Move{
		Count:    max(1, int(args.Count)),
		Exactly:  strings.EqualFold(string(args.Mode), string(redis.LMoveMExactly)),
		OneByOne: strings.EqualFold(string(args.Order), string(redis.LMoveMOBO)),
	}
	var fromErr, toErr error
	m.From, fromErr = ParseEnd(from)
	m.To, toErr = ParseEnd(to)
	switch {
	case fromErr != nil || toErr != nil,
		args.Mode != "" && !m.Exactly && !strings.EqualFold(string(args.Mode), string(redis.LMoveMCount)),
		args.Order != "" && !m.OneByOne && !strings.EqualFold(string(args.Order), string(redis.LMoveMBulk)):
		return m, rediserr.Syntax
	}
	return m, nil
}

// Transfer is how a list gets another name. The values are those of the scripts.
type Transfer string

const (
	Rename Transfer = "RENAME"
	Copy   Transfer = "COPY"
)

// ToItself returns the result of giving a list of that length the name that it has.
func (t Transfer) ToItself(length int64, replace bool) (bool, error) {
	switch {
	case t == Copy:
		return false, rediserr.SameObject
	case length == 0:
		return false, rediserr.NoSuchKey
	}
	return replace, nil
}

// Info describes how a list is stored.
type Info struct {
	First    int64 // id of the leftmost shard
	Last     int64 // id of the rightmost shard; First-1 if the list is empty
	Capacity int64 // elements in a full shard; 0 if the list is empty
	Length   int64 // number of elements
	Bytes    int64 // memory of all shards, estimated; 0 where the server has no MEMORY USAGE
	Slot     int   // cluster slot of all keys, or of the pointers of a list that is spread
	Parts    int64 // over which it is spread; 0 if it is in one slot
	Armed    bool  // the next push into the empty list rings the bell
	Unswept  int64 // shards of a deleted list still to be unlinked, at the most

	Unsplit   int64 // elements of long shards beyond the capacity
	Newcomers int64 // elements at the plain key beside the list
	State     State
}

// State tells whether a list is becoming a plain one.
type State string

const (
	Restoring State = "restoring" // it is becoming one
	Restored  State = "restored"  // it is one
)

// Shards returns the number of shards.
func (i Info) Shards() int64 { return i.Last - i.First + 1 }
