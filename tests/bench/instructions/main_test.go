package main

import (
	"os/exec"
	"testing"
)

// A push executes more instructions than RPUSH, and no count depends on how many calls there are.
func TestCount(t *testing.T) {
	for _, program := range []string{"valgrind", "redis-server"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	each := func(name string, calls int64) int64 {
		for _, o := range operations {
			if o.name == name {
				few, err := count(t.Context(), "redis-server", o, 100)
				if err != nil {
					t.Fatal(err)
				}
				many, err := count(t.Context(), "redis-server", o, 100+int(calls))
				if err != nil {
					t.Fatal(err)
				}
				return (many - few) / calls
			}
		}
		t.Fatal(name)
		return 0
	}
	plain, push, again := each("RPUSH of go-redis", 500), each("RPush", 500), each("RPush", 1500)
	if plain < 1000 || push < 2*plain {
		t.Errorf("RPUSH %d, RPush %d", plain, push)
	}
	if push < again*8/10 || push > again*12/10 {
		t.Errorf("RPush %d with 500 calls, %d with 1500", push, again)
	}
}
