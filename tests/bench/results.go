package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// results are the figures of a run. The report is made from them alone. A section that was not measured is empty.
type results struct {
	Command  string   `json:"command"`
	Machine  string   `json:"machine"`
	Versions []string `json:"versions"` // "name version"
	Short    bool     `json:"short"`
	Runs     int      `json:"runs"`

	Throughput throughputs       `json:"throughput,omitempty"`
	Network    *networkResults   `json:"network,omitempty"`
	Pairs      []pairsResult     `json:"pairs,omitempty"` // in twos, ours first
	Workloads  []workloadFigures `json:"workloads,omitempty"`
	Everyday   []everydayFigures `json:"everyday,omitempty"`
	Keys       []keysFigures     `json:"keys,omitempty"`
	Many       *manyResult       `json:"many,omitempty"`
	Large      throughputs       `json:"large,omitempty"`
	Queue      []clientResult    `json:"queue,omitempty"`       // ours first
	QueueApart []clientResult    `json:"queue_apart,omitempty"` // the server has a processor for itself
	Jobs       *jobsResult       `json:"jobs,omitempty"`
	Calls      []peerCallFigures `json:"calls,omitempty"`
	Wakeup     *wakeupResult     `json:"wakeup,omitempty"`
	Waits      []waitsFigures    `json:"waits,omitempty"`
	Blocked    *blockedResult    `json:"blocked,omitempty"`
	Cancel     *cancelResult     `json:"cancel,omitempty"`
	Big        *bigResult        `json:"big,omitempty"`
	Huge       *hugeResult       `json:"huge,omitempty"`
	Adopt      *adoptResult      `json:"adopt,omitempty"`
	Memory     *memoryResult     `json:"memory,omitempty"`
	Length     *lengthResult     `json:"length,omitempty"`
	Book       *bookResult       `json:"book,omitempty"`
	Spread     *spreadResult     `json:"spread,omitempty"`
	Reshard    *reshardResult    `json:"reshard,omitempty"`
}

// clientResult are the figures of one client.
type clientResult struct {
	Client string `json:"client"`
	figures
}

func loadResults(file string) (r results, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

func (r *results) save(file string) error {
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// describe records the machine and the versions of everything measured.
func (b *bench) describe(ctx context.Context) error {
	r := &b.results
	r.Short, r.Runs = b.short, b.runs
	r.Machine = fmt.Sprintf("%s, %d cores, %s/%s", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	info, err := b.server.info(ctx, "server")
	if err != nil {
		return err
	}
	version := "Redis " + info["redis_version"]
	if valkey := info["valkey_version"]; valkey != "" {
		version = "Valkey " + valkey
	}
	r.Versions = []string{version, strings.Replace(runtime.Version(), "go", "Go ", 1)}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if peerModule.MatchString(module.Path) {
				r.Versions = append(r.Versions, module.Path+" "+module.Version)
			}
		}
	}
	return nil
}

var peerModule = regexp.MustCompile(`/(go-redis/v9|rueidis|asynq|rmq/v5|redis_rate/v10|redislock)$`)

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// command returns the command that repeats this run. It omits paths on this machine.
func command(args []string) string {
	shown := []string{"cd tests/bench && go run ."}
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		switch strings.TrimLeft(name, "-") {
		case "o", "data", "redis-server":
			if !joined {
				i++
			}
		default:
			shown = append(shown, args[i])
		}
	}
	return strings.Join(shown, " ")
}
