package queue

import "errors"

var (
	// ErrOption is returned by New, Push and PushMany for an option that makes no sense. Its text says which and why.
	ErrOption = errors.New("queue: bad option")
	// ErrPayload is returned for a payload that is neither a string nor a []byte, or is larger than MaxPayload. Nothing was pushed.
	ErrPayload = errors.New("bad payload")
	// ErrDuplicate is returned by Push, with the id of the job that is there, for a job whose unique key another job has.
	ErrDuplicate = errors.New("another job has the unique key")
	// ErrNotFound is returned by Cancel and Retry if there is no such job to cancel or to retry.
	ErrNotFound = errors.New("no such job")
	// ErrRunning is returned by Cancel for a job that a consumer has leased.
	ErrRunning = errors.New("the job is leased")
	// ErrID is returned by Cancel and Retry for a string that is no id.
	ErrID = errors.New("no id of a job")
	// ErrEnvelope is returned by Parse for an element that no queue has written.
	ErrEnvelope = errors.New("queue: no envelope of a job")
	// ErrWorkers is returned by Run for a number of workers below 1 or above MaxWorkers, and for a nil handler.
	ErrWorkers = errors.New("queue: bad workers")

	// ErrDead is for handlers: an error that wraps it ends the job at once. It goes to the dead, however often it may be tried.
	ErrDead = errors.New("queue: the job is dead")
	// ErrLeaseLost is the cause of a handler's context that has ended because the lease did: the job may run elsewhere by now.
	ErrLeaseLost = errors.New("queue: the lease has ended")
	// ErrShutdown is the cause of a handler's context that has ended because Run has to return. The job goes back to the queue if the
	// handler fails then, and the attempt does not count.
	ErrShutdown = errors.New("queue: the consumer shuts down")
	// ErrUnfinished is returned by Run if handlers did not return in time when it had to, or the end of their jobs could not be recorded.
	// These jobs come back when their leases end.
	ErrUnfinished = errors.New("handlers did not return, or could not be settled, within the grace")
)
