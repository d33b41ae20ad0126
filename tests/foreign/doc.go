// Package foreign runs the test suites of other projects on clients with a hook of shardedlist: those that Redis has for its
// lists, and those that go-redis has for lists, pipelines and transactions. It has tests only, in a module of its own. README.md
// says what is run, and what is left out.
package foreign
