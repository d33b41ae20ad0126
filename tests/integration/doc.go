// Package integration runs unchanged queue libraries of other authors on clients with the hook of shardedlist. It has only tests, in
// its own module, so that the library does not depend on what they need.
package integration
