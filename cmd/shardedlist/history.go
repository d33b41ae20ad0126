package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxHistory is the most lines that are kept.
const maxHistory = 1000

// history are the lines that were typed, the last one last. A file keeps them, if there is one.
type history struct {
	lines []string
	file  string
}

// historyFile is the file that keeps what was typed, or empty.
func historyFile() string {
	if file, set := os.LookupEnv("SHARDEDLIST_HISTFILE"); set {
		return file
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".shardedlist_history")
}

// openHistory reads the file, and shortens it if it has grown long. A shell without a history is better than none, so errors do not count.
func openHistory(file string) *history {
	h := &history{file: file}
	if file == "" || file == os.DevNull {
		h.file = ""
		return h
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return h
	}
	h.lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(h.lines) > maxHistory {
		h.lines = h.lines[len(h.lines)-maxHistory:]
		_ = os.WriteFile(file, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600)
	}
	return h
}

// Add implements term.History. It leaves out what is the same as before, and what may hold a password.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line || isSecret(line) {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > maxHistory {
		h.lines = h.lines[1:]
	}
	if h.file == "" {
		return
	}
	file, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_ = file.Chmod(0o600) // it may be older
	_, _ = fmt.Fprintln(file, line)
	_ = file.Close()
}

// Len implements term.History.
func (h *history) Len() int { return len(h.lines) }

// At implements term.History.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// isSecret tells whether a line may hold a password, as redis-cli does, or cannot be understood.
func isSecret(line string) bool {
	words, ok := splitWords(strings.ToLower(line))
	if ok && len(words) > 1 && strings.Trim(words[0], "0123456789") == "" {
		words = words[1:] // a number of repetitions
	}
	if len(words) == 0 {
		return strings.Contains(strings.ToLower(line), "auth")
	}
	second := append(words, "")[1]
	switch words[0] {
	case "auth":
		return true
	case "acl":
		return slices.Contains([]string{"setuser", "deluser", "getuser"}, second)
	case "config":
		return second == "set" && strings.ContainsAny(line, " ") && slices.ContainsFunc(words[2:], func(word string) bool {
			return strings.Contains(word, "pass") || strings.HasPrefix(word, "masterauth") || strings.HasPrefix(word, "masteruser") || strings.HasPrefix(word, "primary")
		})
	case "hello", "migrate":
		return slices.Contains(words, "auth") || slices.Contains(words, "auth2")
	}
	return false
}
