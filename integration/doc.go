// Package integration runs queues of other authors, unchanged, on clients with a hook of shardedlist. It has tests only, in a
// module of its own, so that what they need is no dependency of the library.
package integration
