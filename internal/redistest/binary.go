package redistest

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
)

// The variables that choose the servers, see the package comment.
const (
	redisServer   = "SHARDEDLIST_REDIS_SERVER"
	valkeyServer  = "SHARDEDLIST_VALKEY_SERVER"
	clusterServer = "SHARDEDLIST_CLUSTER_SERVER"
)

// A binary is the program that the processes of a server run.
type binary struct {
	path    string
	product string // Redis or Valkey
	version string
	major   int
}

func (b binary) String() string { return b.product + " " + b.version }

// binaryOf returns the program that runs servers of that kind.
func binaryOf(kind Kind) (binary, error) {
	chosen, standard := os.Getenv(redisServer), "redis-server"
	switch kind {
	case Redis:
	case Valkey:
		chosen, standard = os.Getenv(valkeyServer), "valkey-server"
	default:
		chosen = cmp.Or(os.Getenv(clusterServer), chosen)
	}
	path, err := exec.LookPath(cmp.Or(chosen, standard))
	if err == nil {
		path, err = filepath.Abs(path) // processes have their own directories
	}
	switch {
	case err == nil:
		return inspect(path)
	case chosen == "":
		return binary{}, notInstalledError(standard)
	}
	return binary{}, err // it was asked for
}

// inspect asks a program for its version.
func inspect(path string) (binary, error) {
	if b, ok := inspected.Load(path); ok {
		return b.(binary), nil
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return binary{}, fmt.Errorf("%s --version: %w", path, err)
	}
	match := versionLine.FindSubmatch(out)
	if match == nil {
		return binary{}, fmt.Errorf("%s --version tells none: %s", path, out)
	}
	b := binary{path: path, product: string(match[1]), version: string(match[2])}
	b.major, _ = strconv.Atoi(string(match[3]))
	inspected.Store(path, b)
	return b, nil
}

var inspected sync.Map // binaries by their paths

var versionLine = regexp.MustCompile(`(\w+) server v=((\d+)\.\S+)`)

// config returns the directives that every server starts from.
func (b binary) config() []string {
	config := []string{`save ""`, "appendonly no"}
	// Earlier servers don't know these directives and allow everything anyway.
	if b.major >= 7 {
		config = append(config, "enable-debug-command yes", "enable-protected-configs yes")
	}
	return config
}

// noFunctions is the directive of a server that knows no FCALL.
const noFunctions = `rename-command FCALL ""`

// WithoutFunctions reports whether all servers know no FCALL, as SHARDEDLIST_FUNCTIONS=no says.
func WithoutFunctions() bool { return os.Getenv("SHARDEDLIST_FUNCTIONS") == "no" }

// NoFunctions returns what makes a server one that knows no FCALL, if it is none anyway.
func NoFunctions() []string {
	if WithoutFunctions() {
		return nil
	}
	return []string{noFunctions}
}
