package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// version describes the program: its version, the commit it was built of, and what it was built with.
func version() string {
	build, _ := debug.ReadBuildInfo()
	if build == nil {
		build = &debug.BuildInfo{}
	}
	settings := map[string]string{}
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	commit := cmp.Or(settings["vcs.revision"], "unknown")
	if settings["vcs.modified"] == "true" {
		commit += ", with changes"
	}
	client := "unknown"
	for _, module := range build.Deps {
		if module.Path == "github.com/redis/go-redis/v9" {
			client = module.Version
		}
	}
	lines := []string{"shardedlist version " + cmp.Or(build.Main.Version, "(devel)")}
	for _, line := range [][2]string{
		{"commit", commit}, {"date", cmp.Or(settings["vcs.time"], "unknown")}, {"go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}, {"go-redis", client},
	} {
		lines = append(lines, fmt.Sprintf("%-10s%s", line[0], line[1]))
	}
	return strings.Join(lines, "\n")
}
