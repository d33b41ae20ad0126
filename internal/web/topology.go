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
}

type nodes struct {
	names  []string
	owners []int       // the index of the node of each slot, or -1; nil if one server has all
	moving map[int]int // the index of the node that a slot moves to
}

const slots = 16384

// get returns what the nodes are, at most a second old, or more if there are many.
func (t *topology) get(ctx context.Context, client redis.UniversalClient, address string) (*nodes, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return &nodes{names: []string{address}}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen != nil && time.Since(t.at) < lookEvery*time.Duration(1+len(t.seen.names)/looksAtOnce) {
		return t.seen, nil
	}
	seen, err := ask(ctx, cluster)
	if err == nil {
		t.seen, t.at = seen, time.Now()
	}
	return seen, err
}

// ask asks each master for its own slots: only it knows which of them are on their way. Those that are away have none.
func ask(ctx context.Context, cluster *redis.ClusterClient) (*nodes, error) {
	var mu sync.Mutex
	var lines []nodeLine
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		text, err := node.ClusterNodes(ctx).Result()
		if line, found := ownLine(text); found {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		}
		return err
	})
	if len(lines) == 0 {
		return nil, err
	}
	slices.SortFunc(lines, func(a, b nodeLine) int { return strings.Compare(a.address, b.address) })
	n := &nodes{owners: slices.Repeat([]int{-1}, slots), moving: map[int]int{}}
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
