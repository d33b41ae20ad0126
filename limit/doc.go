// Package limit has limiters that all processes of an application share, kept in Redis:
//
//   - [FixedWindow] admits a number of calls in each window of time, such as each minute. It is the cheapest.
//   - [SlidingWindow] admits a number of calls in any span of time, exactly. It keeps a log of them.
//   - [TokenBucket] admits calls at a steady rate, with bursts up to a size.
//   - [DailyCap] admits a number of members a day, each of which counts once.
//   - [Semaphore] lets a number of holders in at a time, with leases.
//   - [Lock] lets one holder in, with a lease and a fencing token.
//
// Each operation is one Lua script, which Redis runs atomically, by the server's clock. The clocks of clients do not matter,
// other than that they must measure spans of time. If the server's clock is set back, a limiter admits nothing new for as long
// as it was set back; nothing is admitted twice.
//
// No key is ever without a TTL: a script that creates a key sets its TTL in the same step.
//
// Calls that a repetition would count twice are applied exactly once: if a reply is lost, the call is sent again with the same
// number, and the server, which keeps the number for a minute, replies as it did the first time.
//
// Limiters of one name and kind are one limiter, in whatever process. They must be created with the same arguments. Those of
// another kind, or of another name, share no key with it. A limiter's keys are in the cluster slot of its name, see
// docs/limit.md.
//
// The limiters work with Redis from 6.2 on, Valkey, Redis Cluster, and a master under Sentinel. A failover loses what was not
// replicated: what was admitted in the last moments may be admitted once more. The methods of all types may be called by many
// goroutines.
package limit
