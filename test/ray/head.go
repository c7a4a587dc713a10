package ray

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
)

// Address is where nodes report to the head.
const Address = "head.example:6379"

// Node is what the head knows of a node.
type Node struct {
	ID, Name string
	Alive    bool
	Draining bool
	Labels   string
	Work     int // tasks and actors
}

// Head is the head of a cluster.
type Head struct {
	t      *testing.T
	Token  string
	server *httptest.Server
	mu     sync.Mutex
	nodes  []*Node
	// Asked are the requests that came with the token.
	Asked []string
}

// NewHead starts a head, with its dashboard.
func NewHead(t *testing.T) *Head {
	t.Helper()
	h := &Head{t: t, Token: "planted-token-of-a-cluster-32-ok"}
	h.server = httptest.NewTLSServer(h)
	t.Cleanup(h.server.Close)
	h.nodes = []*Node{{ID: strings.Repeat("0", 56), Name: "head", Alive: true}}
	return h
}

// Record is the broker's record of the cluster, with its secrets.
func (h *Head) Record() (broker.Cluster, cluster.Access) {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
	return broker.Cluster{
		Name: "train", Backend: broker.ClusterRay, URL: h.server.URL, CACert: string(ca), Controller: Address,
		JoinAuth: broker.JoinToken, VaultPath: broker.ClusterPath("train"), Generation: "g",
	}, cluster.Access{Token: h.Token, JoinSecret: []byte(h.Token)}
}

// ServeHTTP answers as the dashboard does.
func (h *Head) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	auth := r.Header.Get("Authorization")
	switch {
	case auth == "":
		http.Error(w, "Unauthorized: Missing authentication token", http.StatusUnauthorized)
		return
	case auth != "Bearer "+h.Token:
		http.Error(w, "Forbidden: Invalid authentication token", http.StatusForbidden)
		return
	case r.Method != http.MethodGet || r.URL.Path != "/api/v0/nodes":
		http.NotFound(w, r)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Asked = append(h.Asked, r.URL.RequestURI())
	q := r.URL.Query()
	result := []map[string]any{}
	for _, n := range h.nodes {
		row := map[string]any{
			"node_id": n.ID, "node_ip": "10.0.0.7", "is_head_node": n.Name == "head", "state": n.state(), "state_message": nil, "node_name": n.Name,
			"resources_total": map[string]float64{"GPU": 8}, "labels": n.labels(),
		}
		fits := true
		for i, key := range q["filter_keys"] {
			value, _ := row[key].(string)
			fits = fits && q["filter_predicates"][i] == "=" && strings.EqualFold(value, q["filter_values"][i])
		}
		if fits {
			result = append(result, row)
		}
	}
	fitting := len(result)
	if limit, err := strconv.Atoi(q.Get("limit")); err == nil {
		result = result[:min(limit, fitting)]
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(map[string]any{"result": true, "msg": "", "data": map[string]any{"result": map[string]any{
		"total": len(h.nodes), "num_after_truncation": fitting, "num_filtered": fitting, "result": result,
		"partial_failure_warning": "", "warnings": nil,
	}}})
}

// labels are what Ray keeps of --labels, beside its own.
func (n *Node) labels() map[string]string {
	all := map[string]string{"ray.io/node-id": n.ID}
	for _, pair := range strings.Split(n.Labels, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			all[key] = value
		}
	}
	return all
}

func (n *Node) state() string {
	if n.Alive {
		return "ALIVE"
	}
	return "DEAD"
}

// Nodes are the nodes with a name, the oldest first.
func (h *Head) Nodes(name string) (all []Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.nodes {
		if n.Name == name {
			all = append(all, *n)
		}
	}
	return all
}

// change changes the nodes that are alive and fit. A draining node without work ends by itself.
func (h *Head) change(fits func(*Node) bool, change func(*Node)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.nodes {
		if !n.Alive || !fits(n) {
			continue
		}
		change(n)
		if n.Draining && n.Work == 0 {
			n.Alive = false
		}
	}
}

// SetWork says how much a node has to do.
func (h *Head) SetWork(name string, work int) {
	h.change(func(n *Node) bool { return n.Name == name }, func(n *Node) { n.Work = work })
}

// End ends the nodes of a name, as the end of their processes does.
func (h *Head) End(name string) {
	h.change(func(n *Node) bool { return n.Name == name }, func(n *Node) { n.Alive = false })
}

// Run runs a unit of a machine below dir, as systemd does: ray start, or ray drain-node.
func (h *Head) Run(dir, unit string) error {
	file, instance := unit, ""
	if name, rest, ok := strings.Cut(unit, "@"); ok {
		file, instance = name+"@.service", strings.TrimSuffix(rest, ".service")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "etc/systemd/system", file))
	if err != nil {
		return fmt.Errorf("unit %s not found", unit)
	}
	var argv []string
	var token string
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ExecStart":
			argv = strings.Fields(strings.ReplaceAll(value, "%i", instance))
		case "LoadCredential":
			_, path, _ := strings.Cut(value, ":")
			content, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil {
				return err
			}
			token = string(content)
		}
	}
	if len(argv) < 3 || !strings.HasSuffix(argv[0], "/bin/ray") || token != h.Token || !slices.Contains(argv, "--address="+Address) {
		return fmt.Errorf("the head refuses %q", argv)
	}
	option := func(name string) string {
		for _, a := range argv {
			if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
				return value
			}
		}
		return ""
	}
	switch argv[1] {
	case "start":
		h.start(option("node-name"), option("labels"))
	case "drain-node":
		h.change(func(n *Node) bool { return n.ID == option("node-id") }, func(n *Node) { n.Draining = true })
	default:
		return fmt.Errorf("ray has no command %s", argv[1])
	}
	return nil
}

func (h *Head) start(name, labels string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes = append(h.nodes, &Node{ID: fmt.Sprintf("%056x", len(h.nodes)), Name: name, Alive: true, Labels: labels})
}
