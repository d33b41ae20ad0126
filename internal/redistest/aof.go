package redistest

import (
	"bytes"
	"os"
	"path/filepath"
)

// mend cuts off the transaction at the end of the append-only file that a kill has left unfinished, as redis-check-aof --fix does. A script
// that writes is one. Redis, and Valkey up to 8, cut the command that is torn and leave those before it: when they start once more, these
// are carried out together with what has been appended since. See https://github.com/valkey-io/valkey/pull/4342.
func (p *process) mend() error {
	logs, err := filepath.Glob(filepath.Join(p.dir, "appendonlydir", "*.incr.aof"))
	if err != nil {
		return err
	}
	for _, name := range logs {
		log, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		begun := bytes.LastIndex(log, []byte("*1\r\n$5\r\nMULTI\r\n"))
		if begun < 0 || bytes.Contains(log[begun:], []byte("*1\r\n$4\r\nEXEC\r\n")) {
			continue
		}
		if err := os.Truncate(name, int64(begun)); err != nil {
			return err
		}
	}
	return nil
}
