package web

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// topology is which node of a cluster has which slot. Without a cluster, the server has all.
type topology struct {
	mu   sync.Mutex
	seen *nodes
	at   time.Time
	took time.Duration
}

type nodes struct {
	names  []string
	owners []int       // the index of the node of each slot, or -1; nil if one server has all
	moving map[int]int // the index of the node that a slot moves to
}

const (
	slots   = 16384
	askLife = time.Second // a node that does not answer holds up those who look at lists on others for so long,
	askRest = 20          // and then not for so many times as long
)

// get returns what the nodes are, at most a second old, or more if there are many, or one does not answer.
func (t *topology) get(ctx context.Context, client redis.UniversalClient, address string) (*nodes, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return &nodes{names: []string{address}}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen != nil && time.Since(t.at) < max(lookEvery*time.Duration(1+len(t.seen.names)/looksAtOnce), askRest*t.took) {
		return t.seen, nil
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, askLife)
	defer cancel()
	seen, err := ask(ctx, cluster)
	if err != nil && t.seen != nil {
		seen, err = t.seen, nil // the client asks any node who the masters are, which may be one that does not answer
	}
	if err == nil {
		t.seen, t.at = seen, time.Now()
		t.took = t.at.Sub(start)
	}
	return seen, err
}

// ask asks each master for its own slots: only it knows which of them are on their way. Those that are away have none.
func ask(ctx context.Context, cluster *redis.ClusterClient) (*nodes, error) {
	lines, err := ownLines(ctx, cluster)
	if len(lines) == 0 {
		return nil, err
	}
	n := &nodes{owners: slices.Repeat([]int{-1}, slots), moving: map[int]int{}}
	slices.SortFunc(lines, func(a, b nodeLine) int { return strings.Compare(a.address, b.address) })
	for i, line := range lines {
		n.names = append(n.names, line.address)
		for _, r := range line.ranges {
			for slot := r[0]; slot <= r[1]; slot++ {
				n.owners[slot] = i
			}
		}
		for slot, id := range line.moving {
			if to := slices.IndexFunc(lines, func(l nodeLine) bool { return l.id == id }); to >= 0 {
				n.moving[slot] = to
			}
		}
	}
	return n, nil
}

// ownLines returns the lines of the masters that answer before ctx ends. Reads of a connection do not end with it, so nobody waits for them.
func ownLines(ctx context.Context, cluster *redis.ClusterClient) ([]nodeLine, error) {
	var mu sync.Mutex
	var lines []nodeLine
	asked := make(chan error, 1)
	go func() {
		asked <- cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			text, err := node.ClusterNodes(ctx).Result()
			if line, found := ownLine(text); found {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, line)
			}
			return err
		})
	}()
	var err error
	select {
	case err = <-asked:
	case <-ctx.Done():
		err = ctx.Err()
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(lines), err
}

// nodeLine is a line of CLUSTER NODES.
type nodeLine struct {
	id, address string
	ranges      [][2]int
	moving      map[int]string // the id of the node that a slot moves to
}

var (
	slotRange  = regexp.MustCompile(`^(\d+)(?:-(\d+))?$`)
	slotMoving = regexp.MustCompile(`^\[(\d+)->-(\w+)\]$`)
)

// ownLine returns the line of the node that was asked.
func ownLine(text string) (line nodeLine, found bool) {
	for row := range strings.Lines(text) {
		words := strings.Fields(row)
		if len(words) < 8 || !strings.Contains(words[2], "myself") {
			continue
		}
		line = nodeLine{id: words[0], moving: map[int]string{}}
		line.address, _, _ = strings.Cut(words[1], "@")
		for _, word := range words[8:] {
			if m := slotRange.FindStringSubmatch(word); m != nil {
				from, _ := strconv.Atoi(m[1])
				to, err := strconv.Atoi(m[2])
				if err != nil {
					to = from
				}
				if from < slots && to < slots {
					line.ranges = append(line.ranges, [2]int{from, to})
				}
			} else if m := slotMoving.FindStringSubmatch(word); m != nil {
				slot, _ := strconv.Atoi(m[1])
				line.moving[slot] = m[2]
			}
		}
		return line, true
	}
	return line, false
}

// of returns the index of the node that has a slot, or -1.
func (n *nodes) of(slot int) int {
	if n.owners == nil {
		return 0
	}
	return n.owners[slot]
}

// movesTo returns the index of the node that a slot moves to, or -1.
func (n *nodes) movesTo(slot int) int {
	if to, found := n.moving[slot]; found {
		return to
	}
	return -1
}
