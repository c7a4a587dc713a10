package onboardingtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/taskcatalog"
)

// Book keeps sites and nodes in memory.
type Book struct {
	Now       func() time.Time
	ID        string // of the only node; empty: ids are numbered
	Overrides []broker.PowerOverride
	RoCE      []broker.RoCEAssignment
	// Broken, if set, is called before each method with the method's name; the method returns its
	// error.
	Broken func(method string) error
	// Unlike returns why a node's machine is not the expected one; nil or an empty string: it
	// matches.
	Unlike func(nodeID string) string

	mu      sync.Mutex
	sites   map[string]broker.Site // by id
	nodes   []*entry
	reports map[string]string // capabilities
}

type entry struct {
	broker.Node
	run      string
	turnover string // the run that has the node between two tenants; empty: none
	token    string // empty: no open token
	expires  time.Time
	extended int
	reseeds  map[string]int // by key: number of requests
	own      bool           // quarantined, and not by a person
	seeded   taskcatalog.MAASMachineToken
	asked    map[string]string // diagnostics by key: the task
}

var (
	_ onboarding.Records = (*Book)(nil)
	_ onboarding.Nodes   = (*Book)(nil)
)

func (b *Book) enter(method string) (leave func(), err error) {
	if b.Broken != nil {
		if err := b.Broken(method); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	return b.mu.Unlock, nil
}

// id returns the id of the next node.
func (b *Book) id() string {
	if b.ID != "" {
		return b.ID
	}
	return fmt.Sprintf("n-%04d", len(b.nodes)+1)
}

// PutSite adds or replaces a site.
func (b *Book) PutSite(s broker.Site) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sites == nil {
		b.sites = map[string]broker.Site{}
	}
	b.sites[s.ID] = s
}

// All lists the nodes, oldest first.
func (b *Book) All() []broker.Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []broker.Node
	for _, e := range b.nodes {
		out = append(out, e.Node)
	}
	return out
}

// Reseeds returns under how many keys a node's agent was asked to reseed.
func (b *Book) Reseeds(nodeID string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.nodes {
		if e.ID == nodeID {
			return len(e.reseeds)
		}
	}
	return 0
}

// Seeded returns the token that a node's agent was given last.
func (b *Book) Seeded(nodeID string) taskcatalog.MAASMachineToken {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.nodes {
		if e.ID == nodeID {
			return e.seeded
		}
	}
	return taskcatalog.MAASMachineToken{}
}

const tokenLine = "# enrol token "

// Enroll enrols the agent of a machine with this user-data, if the token in the user-data is open.
func (b *Book) Enroll(userData []byte) (enrolled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, rest, has := strings.Cut(string(userData), tokenLine)
	token, _, _ := strings.Cut(rest, "\n")
	for _, e := range b.nodes {
		if has && token != "" && e.token == token && b.Now().Before(e.expires) && e.Status != broker.Deleted {
			e.token = ""
			e.Epoch++
			e.Capabilities = maps.Clone(b.reports)
			return true
		}
	}
	return false
}

// Reports sets the capabilities that agents report, now and when they enrol.
func (b *Book) Reports(capabilities map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = maps.Clone(capabilities)
	for _, e := range b.nodes {
		e.Capabilities = maps.Clone(capabilities)
	}
}

// Come enrols the agent that an operator has installed.
func (b *Book) Come(nodeID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID && e.Status != broker.Deleted }); e != nil {
		e.Epoch++
	}
}

// Put moves a node, as an operator does.
func (b *Book) Put(nodeID string, status broker.NodeStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID }); e != nil {
		e.Status, e.own = status, false
	}
}

// Turn gives a node to a run that takes back its machine: the node is retired, and a turnover is
// owed.
func (b *Book) Turn(nodeID, runID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID }); e != nil {
		e.Status, e.TurnoverOwed, e.turnover = broker.Retired, true, runID
	}
}

// Site implements onboarding.Records.
func (b *Book) Site(_ context.Context, ref string) (broker.Site, error) {
	leave, err := b.enter("Site")
	if err != nil {
		return broker.Site{}, err
	}
	defer leave()
	s, ok := b.sites[ref]
	if !ok {
		return s, broker.Errorf(broker.NotFound, "site_not_found", "there is no site %s", ref)
	}
	return s, nil
}

// UsePowerOverride implements onboarding.Records.
func (b *Book) UsePowerOverride(_ context.Context, siteID, pxeMAC, ipmiIP, hostname string) (broker.PowerOverride, bool, error) {
	leave, err := b.enter("UsePowerOverride")
	if err != nil {
		return broker.PowerOverride{}, false, err
	}
	defer leave()
	of := slices.DeleteFunc(slices.Clone(b.Overrides), func(o broker.PowerOverride) bool { return o.SiteID != siteID })
	o, has := broker.SelectPowerOverride(of, pxeMAC, ipmiIP, hostname)
	return o, has, nil
}

// RoCEAssignments implements onboarding.Records.
func (b *Book) RoCEAssignments(_ context.Context, siteID, hostname string) ([]broker.RoCEAssignment, error) {
	leave, err := b.enter("RoCEAssignments")
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []broker.RoCEAssignment
	for _, r := range b.RoCE {
		if r.SiteID == siteID && r.Hostname == hostname {
			out = append(out, r)
		}
	}
	return out, nil
}

// find returns the first node that satisfies what; nil: no node does.
func (b *Book) find(what func(*entry) bool) *entry {
	i := slices.IndexFunc(b.nodes, what)
	if i < 0 {
		return nil
	}
	return b.nodes[i]
}

// Bound implements onboarding.Nodes.
func (b *Book) Bound(_ context.Context, site, systemID, runID string) (string, error) {
	leave, err := b.enter("Bound")
	if err != nil {
		return "", err
	}
	defer leave()
	e := b.find(func(e *entry) bool {
		return e.Site == site && e.MAASSystemID == systemID && e.Status != broker.Deleted && e.run != runID
	})
	if e == nil {
		return "", nil
	}
	return e.ID, nil
}

// InUse implements onboarding.Nodes.
func (b *Book) InUse(_ context.Context, nodeID, runID string) (string, error) {
	leave, err := b.enter("InUse")
	if err != nil {
		return "", err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	if e == nil {
		return "", nil
	}
	if e.turnover != "" && e.turnover == runID {
		return "", nil
	}
	return onboarding.Occupied(e.Node), nil
}

// MadeBy implements onboarding.Nodes.
func (b *Book) MadeBy(_ context.Context, nodeID string) (string, error) {
	leave, err := b.enter("MadeBy")
	if err != nil {
		return "", err
	}
	defer leave()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID }); e != nil {
		return e.run, nil
	}
	return "", notFound(nodeID)
}

// Prepare implements onboarding.Nodes.
func (b *Book) Prepare(_ context.Context, n onboarding.NewNode) (string, error) {
	leave, err := b.enter("Prepare")
	if err != nil {
		return "", err
	}
	defer leave()
	if e := b.find(func(e *entry) bool { return (e.run == n.RunID || e.turnover == n.RunID) && e.Status != broker.Deleted }); e != nil {
		e.MAASSystemID = n.MAASSystemID
		return e.ID, nil
	}
	if e := b.find(func(e *entry) bool {
		return e.Site == n.Site && e.Hostname == n.Hostname && e.Status != broker.Deleted
	}); e != nil {
		return "", broker.Errorf(broker.Refused, "hostname_taken", "cannot make node %s: node %s has that name", n.Hostname, e.ID)
	}
	e := &entry{run: n.RunID, Node: broker.Node{
		ID: b.id(), Hostname: n.Hostname, Site: n.Site, SKU: n.SKU, Status: broker.Enrolling, MAASSystemID: n.MAASSystemID,
	}}
	b.nodes = append(b.nodes, e)
	return e.ID, nil
}

// Bundle implements onboarding.Nodes.
func (b *Book) Bundle(_ context.Context, nodeID string, f onboarding.BundleFacts) (onboarding.Bundle, error) {
	leave, err := b.enter("Bundle")
	if err != nil {
		return onboarding.Bundle{}, err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID && e.Status != broker.Deleted })
	if e == nil {
		return onboarding.Bundle{}, notFound(nodeID)
	}
	const spare = 15 * time.Minute
	if e.token == "" || e.expires.Before(f.Expires) {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", nodeID, e.expires.UnixNano()))
		e.token, e.expires, e.extended = fmt.Sprintf("hsn_%x", sum[:16]), f.Expires.Add(spare), 0
	}
	text := fmt.Sprintf("#cloud-config\n# node %s on %s, %d disks, %d RoCE addresses\n", nodeID, f.SystemID, len(f.Disks), len(f.RoCE))
	return onboarding.Bundle{UserData: []byte(text + tokenLine + e.token + "\n"), Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))), Epoch: e.Epoch}, nil
}

func notFound(nodeID string) error {
	return broker.Errorf(broker.NotFound, "node_not_found", "there is no node %s", nodeID)
}

// Node implements onboarding.Nodes.
func (b *Book) Node(_ context.Context, nodeID string) (broker.Node, error) {
	leave, err := b.enter("Node")
	if err != nil {
		return broker.Node{}, err
	}
	defer leave()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID }); e != nil {
		return e.Node, nil
	}
	return broker.Node{}, notFound(nodeID)
}

// Activate implements onboarding.Nodes.
func (b *Book) Activate(_ context.Context, nodeID string) (bool, string, error) {
	leave, err := b.enter("Activate")
	if err != nil {
		return false, "", err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	switch {
	case e == nil:
		return false, "", notFound(nodeID)
	case e.Epoch == 0:
		return false, "its agent has not come", nil
	case b.Unlike != nil && b.Unlike(nodeID) != "":
		return false, "", broker.Errorf(broker.Refused, onboarding.CodeHardwareMismatch, "node %s: %s", nodeID, b.Unlike(nodeID))
	case e.Status == broker.Quarantined:
		return false, "a person lets it in again", nil
	case e.Status == broker.Retired && e.turnover != "":
		return true, "", nil // the turnover's run activates the node
	case e.Status != broker.Enrolling && e.Status != broker.Active:
		return false, "", broker.Errorf(broker.Refused, "transition_refused", "cannot move node %s from %s to active", nodeID, e.Status)
	}
	e.Status = broker.Active
	return true, "", nil
}

// ExtendToken implements onboarding.Nodes.
func (b *Book) ExtendToken(_ context.Context, nodeID string, until time.Time, _ string) error {
	leave, err := b.enter("ExtendToken")
	if err != nil {
		return err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	const most = 2
	switch {
	case e == nil:
		return notFound(nodeID)
	case e.token == "":
		return broker.Errorf(broker.Refused, "token_none", "cannot extend the enrol token of node %s: it has none that is open", nodeID)
	case e.extended >= most:
		return broker.Errorf(broker.Refused, "token_extended_twice", "cannot extend the enrol token of node %s: it was extended %d times", nodeID, most)
	case until.After(e.expires):
		e.expires = until
		e.extended++
	}
	return nil
}

// Remove implements onboarding.Nodes.
func (b *Book) Remove(_ context.Context, runID, _ string) (string, error) {
	leave, err := b.enter("Remove")
	if err != nil {
		return "", err
	}
	defer leave()
	if e := b.find(func(e *entry) bool { return e.turnover == runID }); e != nil {
		e.token = ""
		return e.ID, nil
	}
	e := b.find(func(e *entry) bool { return e.run == runID && e.Status != broker.Deleted })
	switch {
	case e == nil:
		return "", nil
	case e.Epoch > 0:
		return e.ID, nil
	}
	e.Status, e.token = broker.Deleted, ""
	return "", nil
}

// Renew implements onboarding.Nodes.
func (b *Book) Renew(_ context.Context, runID, reason string) (string, error) {
	leave, err := b.enter("Renew")
	if err != nil {
		return "", err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.run == runID && e.Status != broker.Deleted })
	switch {
	case e == nil || e.Status != broker.Quarantined:
		return "", nil
	case !e.own:
		return "node " + e.ID + " is quarantined, and a person lets it in again", nil
	}
	e.Status, e.StatusReason, e.own = broker.Enrolling, reason, false
	return "", nil
}

// Quarantine implements onboarding.Nodes.
func (b *Book) Quarantine(_ context.Context, nodeID, reason string) error {
	leave, err := b.enter("Quarantine")
	if err != nil {
		return err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	if e == nil {
		return notFound(nodeID)
	}
	switch e.Status {
	case broker.Retired:
		if e.turnover != "" {
			e.Status, e.StatusReason = broker.Quarantined, reason
		}
	case broker.Enrolling, broker.Active, broker.Offline: // other statuses are out of use already, or on their way
		e.own = e.Status == broker.Enrolling
		e.Status, e.StatusReason = broker.Quarantined, reason
	}
	return nil
}

// Reseed implements onboarding.Nodes: the task has ended at the second call.
func (b *Book) Reseed(_ context.Context, key, nodeID string, token taskcatalog.MAASMachineToken, _ time.Duration) (bool, error) {
	leave, err := b.enter("Reseed")
	if err != nil {
		return false, err
	}
	defer leave()
	if _, err := token.Rack(); err != nil {
		return false, err
	}
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	if e == nil {
		return false, notFound(nodeID)
	}
	if e.reseeds == nil {
		e.reseeds = map[string]int{}
	}
	e.seeded = token
	e.reseeds[key]++
	return e.reseeds[key] > 1, nil
}

// Diagnose implements onboarding.Nodes: the task is recorded, and nobody waits for its result.
func (b *Book) Diagnose(_ context.Context, key, nodeID, runID string) (string, error) {
	leave, err := b.enter("Diagnose")
	if err != nil {
		return "", err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	if e == nil || e.Epoch == 0 {
		return "", notFound(nodeID)
	}
	if e.asked == nil {
		e.asked = map[string]string{}
	}
	if e.asked[key] == "" {
		e.asked[key] = fmt.Sprintf("t-%s-%d", runID, len(e.asked)+1)
	}
	return e.asked[key], nil
}

// Diagnosed lists the keys under which a node's agent was asked for its diagnostics.
func (b *Book) Diagnosed(nodeID string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID }); e != nil {
		return slices.Sorted(maps.Keys(e.asked))
	}
	return nil
}

// Open lists the open tokens, for tests that search for them.
func (b *Book) Open() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]bool{}
	for _, e := range b.nodes {
		if e.token != "" {
			out[e.token] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}
