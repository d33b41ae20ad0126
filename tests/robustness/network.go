package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// A network puts each node of a cluster into its own network namespace. A bridge in one more namespace connects them, and a link
// connects the machine to the bridge. Nothing of it outlives this program: a namespace ends with the last process in it, a link with
// either of its ends.
type network struct {
	subnet string // 198.18.n., from the range reserved for benchmarks
	nodes  []*namespace
	rules  []int // how many rules cut each node off
}

const nodesOfCluster = 6

// Address 1 is the harness's, on the machine itself; it is never cut off.
func (n *network) client(i int) string { return fmt.Sprint(n.subnet, 2+i) }
func (n *network) node(i int) string   { return fmt.Sprint(n.subnet, 101+i) }

// canIsolate returns an error if there can be no network.
func canIsolate() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can make network namespaces")
	}
	for _, tool := range []string{"ip", "nsenter", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: Debian has it in iproute2 or util-linux", err)
		}
	}
	return nil
}

// newNetwork makes a network for the nodes of a cluster and for all workers.
func newNetwork(b *harness) (n *network, err error) {
	bridge, err := newNamespace(b)
	if err != nil {
		return nil, err
	}
	n = &network{rules: make([]int, nodesOfCluster)}
	var uplink string
	for range 20 { // other runs may have networks too: the name of the link tells which are taken
		number := rand.IntN(256)
		n.subnet, uplink = fmt.Sprintf("198.18.%d.", number), fmt.Sprint("robustness", number)
		err = ip(nil, fmt.Sprintf("link add name %s type veth peer name uplink netns %d", uplink, bridge.pid()))
		if err == nil || !strings.Contains(err.Error(), "File exists") {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	here := []string{fmt.Sprintf("address add %s1/24 dev %s", n.subnet, uplink)}
	for i := range workers {
		here = append(here, fmt.Sprintf("address add %s/24 dev %s", n.client(i), uplink))
	}
	err = errors.Join(
		ip(nil, append(here, fmt.Sprintf("link set dev %s up", uplink))...),
		ip(bridge, "link add name bridge type bridge", "link set dev bridge up", "link set dev uplink master bridge up"),
	)
	for i := range nodesOfCluster {
		node, e := newNamespace(b)
		if e != nil {
			return nil, errors.Join(err, e)
		}
		n.nodes = append(n.nodes, node)
		err = errors.Join(err,
			ip(bridge, fmt.Sprintf("link add name node%d type veth peer name eth0 netns %d", i, node.pid()), fmt.Sprintf("link set dev node%d master bridge up", i)),
			// By default, packets for the node itself pass before any rule is looked up.
			ip(node, "rule add pref 100 lookup local", "rule del pref 0", "link set dev lo up",
				fmt.Sprintf("address add %s/24 dev eth0", n.node(i)), "link set dev eth0 up"))
	}
	return n, err
}

// placements returns those of the nodes.
func (n *network) placements() (placements []redistest.Placement) {
	for i, node := range n.nodes {
		placements = append(placements, redistest.Placement{IP: n.node(i), Via: node.enter()})
	}
	return placements
}

// cut drops all packets between the addresses on that side and all others. Requests pass for a moment longer than replies.
func (n *network) cut(side []string) error {
	var all []string
	for i := range workers {
		all = append(all, n.client(i))
	}
	for i := range n.nodes {
		all = append(all, n.node(i))
	}
	for _, way := range []string{"to", "from"} {
		for i, node := range n.nodes {
			var rules []string
			for _, other := range all {
				if slices.Contains(side, other) != slices.Contains(side, n.node(i)) {
					rules = append(rules, fmt.Sprintf("rule add pref 1 %s %s blackhole", way, other))
				}
			}
			if err := ip(node, rules...); err != nil {
				return err
			}
			n.rules[i] += len(rules)
		}
	}
	return nil
}

// heal undoes cut.
func (n *network) heal() error {
	for i, node := range n.nodes {
		if err := ip(node, slices.Repeat([]string{"rule del pref 1"}, n.rules[i])...); err != nil {
			return err
		}
		n.rules[i] = 0
	}
	return nil
}

// A namespace is a network namespace, held by a process that idles until this one ends.
type namespace struct{ holder *exec.Cmd }

func newNamespace(b *harness) (*namespace, error) {
	n := &namespace{exec.Command("unshare", "--net", "sh", "-c", "echo; exec cat")}
	n.holder.Stderr = os.Stderr
	input, err1 := n.holder.StdinPipe()
	output, err2 := n.holder.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := n.holder.Start(); err != nil {
		return nil, err
	}
	b.Cleanup(func() {
		_ = input.Close()
		_ = n.holder.Wait()
	})
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("no network namespace: %w", err)
	}
	return n, nil
}

func (n *namespace) pid() int { return n.holder.Process.Pid }

func (n *namespace) enter() []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", n.pid())}
}

// ip runs commands of ip, in a namespace or, if that is nil, on the machine.
func ip(where *namespace, commands ...string) error {
	argv := []string{"ip", "-batch", "-"}
	if where != nil {
		argv = append(where.enter(), argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
