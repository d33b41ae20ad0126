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
	of := func(name string, calls int) int64 {
		for _, o := range operations {
			if o.name == name {
				instructions, err := count(t.Context(), "redis-server", o, calls)
				if err != nil {
					t.Fatal(err)
				}
				return instructions
			}
		}
		t.Fatal(name)
		return 0
	}
	plain, few, many, most := (of("RPUSH of go-redis", 600)-of("RPUSH of go-redis", 100))/500, of("RPush", 100), of("RPush", 600), of("RPush", 1600)
	push, again := (many-few)/500, (most-few)/1500
	if plain < 1000 || push < 2*plain {
		t.Errorf("RPUSH %d, RPush %d", plain, push)
	}
	if push < again*8/10 || push > again*12/10 {
		t.Errorf("RPush %d with 500 calls, %d with 1500", push, again)
	}
}
