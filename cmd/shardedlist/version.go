package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version describes the program, by name and value: its version, the commit it was built of, and what it was built with.
func version() (fields [][2]string) {
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
	return [][2]string{
		{"version", cmp.Or(build.Main.Version, "(devel)")}, {"commit", commit}, {"date", cmp.Or(settings["vcs.time"], "unknown")},
		{"go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}, {"go-redis", client},
	}
}

// addVersion adds the flag --version, whose template chooses between text and JSON: cobra prints it before any command runs.
func addVersion(root *cobra.Command) {
	fields := version()
	lines, object := []string{"shardedlist version " + fields[0][1]}, []string{}
	for i, f := range fields {
		if i > 0 {
			lines = append(lines, fmt.Sprintf("%-10s%s", f[0], f[1]))
		}
		object = append(object, jsonString(f[0])+":"+jsonString(f[1]))
	}
	root.Version = strings.Join(lines, "\n")
	root.Annotations = map[string]string{"version": "{" + strings.Join(object, ",") + "}"}
	root.SetVersionTemplate(`{{if eq (.Flags.Lookup "json").Value.String "true"}}{{.Annotations.version}}{{else}}{{.Version}}{{end}}` + "\n")
}
