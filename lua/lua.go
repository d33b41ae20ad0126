// Package lua holds the Lua scripts of the operations.
//
// Each file of commands/ is one operation. It shares code with others through files of shared/, and may have a fast path in
// fast/. The line "-- requires:" at the head of a file names the files that go in front of it, in that order; they may require
// others in turn. Servers that have functions load all commands as one library, see Library; others get a script for each.
package lua

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

//go:embed shared/*.lua fast/*.lua commands/*.lua
var files embed.FS

const requires = "-- requires: "

// Source returns the text of a command with everything that it requires in front. It panics if there is no such command.
func Source(command string) string {
	var source strings.Builder
	for _, name := range mustCompose(command) {
		text, _ := read(files, name)
		source.WriteString(text)
	}
	return source.String()
}

// Around returns what stands in front of a command that runs a source of the user's, see commands/script.lua.
// The source comes first, so that the server names its own lines in errors, and so that it does not see what is defined behind it. It has
// these four names, and not the arguments of the command.
func Around(source string) string {
	return "KEYS.source = function(KEYS, ARGV, lpush, rpush) " + source + "\nend\n"
}

// Requires tells whether a command requires a file, say "shared/session", itself or through others. It panics if there is no
// such command.
func Requires(command, file string) bool {
	return slices.Contains(mustCompose(command), file)
}

// Commands returns the names of all commands, sorted.
func Commands() []string {
	return names(files, "commands")
}

func mustCompose(command string) []string {
	if known, ok := composed.Load(command); ok {
		return known.([]string)
	}
	names, err := compose(files, "commands/"+command)
	if err != nil {
		panic(err) // the files are part of this package
	}
	composed.Store(command, names)
	return names
}

// composed is what mustCompose has returned, and texts what read has of this package: a program that starts needs all of it.
var composed, texts sync.Map

// read returns the text of a file.
func read(files fs.FS, file string) (string, error) {
	_, embedded := files.(embed.FS)
	if text, ok := texts.Load(file); embedded && ok {
		return text.(string), nil
	}
	bytes, err := fs.ReadFile(files, file+".lua")
	text := string(bytes)
	if embedded && err == nil {
		texts.Store(file, text)
	}
	return text, err
}

// compose returns a file and all files that it requires, each once and after those that it requires itself.
func compose(files fs.FS, file string) ([]string, error) {
	c := composer{files: files}
	err := c.add(file)
	return c.composed, err
}

type composer struct {
	files    fs.FS
	composed []string
	path     []string // from the first file to the one that is being added
}

func (c *composer) add(file string) error {
	if slices.Contains(c.composed, file) {
		return nil
	}
	path := append(slices.Clip(c.path), file)
	if slices.Contains(c.path, file) {
		return fmt.Errorf("lua: a cycle of files: %s", strings.Join(path, " requires "))
	}
	text, err := read(c.files, file)
	if err != nil {
		return fmt.Errorf("lua: %s: %w", strings.Join(path, " requires "), err)
	}
	c.path = path
	for _, required := range requiredBy(text) {
		if err := c.add(required); err != nil {
			return err
		}
	}
	c.path = path[:len(path)-1]
	c.composed = append(c.composed, file)
	return nil
}

// requiredBy returns the files that the head of a file names.
func requiredBy(text string) []string {
	for line := range strings.Lines(text) {
		if list, found := strings.CutPrefix(line, requires); found {
			return strings.Fields(list)
		}
		if !strings.HasPrefix(line, "--") {
			break
		}
	}
	return nil
}

// names returns the names of the files in a folder, sorted and without the folder.
func names(files fs.FS, folder string) []string {
	paths, _ := fs.Glob(files, folder+"/*.lua")
	for i, path := range paths {
		paths[i] = strings.TrimSuffix(strings.TrimPrefix(path, folder+"/"), ".lua")
	}
	return paths
}
