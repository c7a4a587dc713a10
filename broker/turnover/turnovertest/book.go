package turnovertest

import (
	"cmp"
	"context"
	"crypto"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

// Book is turnover.Nodes in memory.
type Book struct {
	Now func() time.Time
	// Broken, if set, is called before each method, with its name; an error is returned.
	Broken func(method string) error

	t  testing.TB
	ca *pkitest.Authority

	mu      sync.Mutex
	nodes   map[string]*Machine
	files   map[string][]byte                  // certificates by id
	accepts map[string][]certificate.Downgrade // by run
	owed    map[string]certificate.Verdict
	of      map[string]string // certificate → run
	epoch   map[string]int64  // of the node, by certificate
	issued  []string          // certificates, in order
	tasks   map[string]*broker.Task
	made    int
	tokens  int // enrol tokens so far
	// InRun returns the live run that has a node; nil, or empty: none. No user is let in while a
	// run has the node.
	InRun func(nodeID string) (runID string)
	// Forced are the allocations that were ended by force, in order.
	Forced []string
	// Cancelled is how many tasks a person has cancelled.
	Cancelled int
}

// Machine is a node with the state that its agent would find.
type Machine struct {
	broker.Node
	Parts turnover.Parts
	Users []broker.Allocation
	// Silent: the agent does not answer.
	Silent bool
	// Fails names the task types that the agent fails, with their codes.
	Fails map[string]taskcatalog.Code
	// Works names the task types that take the agent longer than usual.
	Works map[string]time.Duration
	// Cancels counts by task type how many of the next tasks a person cancels.
	Cancels map[string]int
	// Faulty are unclean GPUs, by UUID, with their codes.
	Faulty map[string]taskcatalog.Code
	// Better is a method that the disks claim to have, and refuse; empty: they do as they claim.
	Better taskcatalog.EraseMethod
	// Unlike lists the differences of the fresh system from the first system.
	Unlike []string
	// Residue are the findings of a validation.
	Residue []taskcatalog.Finding
	// Short is how many bytes an erase misses of a disk.
	Short uint64
	// NotMade are the checks that the agent cannot make. Unknown are checks that the agent does
	// not know: its signed result leaves them out.
	NotMade, Unknown []string

	// ByPerson: a person has quarantined the node.
	ByPerson bool
	// ConflictAt is the last time two parties had the node's identity.
	ConflictAt time.Time

	key   crypto.Signer
	keys  []issued
	drain bool // the drain mark
	token string
	// State after the machine was given back.
	cut     bool      // the former system is shut out
	by      string    // the last run that shut it out
	wiped   bool      // MAAS has had the machine back since
	shownAt time.Time // a certificate of the former system was shown
	forgot  bool
}

// Cut reports whether all certificates of the node are denied.
func (m *Machine) Cut() bool { return m.cut }

// ShownAt is when a certificate from before the last wipe was shown; zero: never.
func (m *Machine) ShownAt() time.Time { return m.shownAt }

type issued struct {
	der []byte
	pub crypto.PublicKey
	at  time.Time
}

var _ turnover.Nodes = (*Book)(nil)

// New makes an empty book whose certificates can be verified.
func New(t testing.TB, now func() time.Time) *Book {
	t.Helper()
	return &Book{
		Now: now, t: t, ca: pkitest.NewAt(t, now()),
		accepts: map[string][]certificate.Downgrade{}, nodes: map[string]*Machine{}, files: map[string][]byte{}, owed: map[string]certificate.Verdict{}, of: map[string]string{}, epoch: map[string]int64{}, tasks: map[string]*broker.Task{},
	}
}

func (b *Book) enter(method string) (leave func(), err error) {
	if b.Broken != nil {
		if err := b.Broken(method); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	return b.mu.Unlock, nil
}

// Add adds an active node with a system disk and the given number of GPUs.
func (b *Book) Add(id string, gpus int) *Machine {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &Machine{Node: broker.Node{ID: id, Hostname: "gpu-" + id[len(id)-2:], Site: "dc1", SKU: "h100", Status: broker.Active, Epoch: 1, AgentVersion: "0.1.0"}}
	m.Parts.Devices = []broker.Device{{Kind: broker.DeviceDisk, ID: "BOSS-" + id, Model: "BOSS", State: broker.DeviceFound, Role: broker.RoleSystem}}
	m.Parts.Facts.ChassisSerial = "CH-" + id
	m.Parts.Facts.Disks = []taskcatalog.DiskFacts{{Name: "sda", Serial: "BOSS-" + id, System: true}}
	for i := range gpus {
		uuid := fmt.Sprintf("GPU-%s-%d", id, i)
		m.Parts.GPUs = append(m.Parts.GPUs, taskcatalog.BaselineGPU{Vendor: "nvidia", UUID: uuid, Serial: fmt.Sprint(1000 + i)})
		m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceGPU, ID: uuid, State: broker.DeviceFound})
		m.Parts.Facts.GPUs = append(m.Parts.Facts.GPUs, taskcatalog.GPUFacts{UUID: uuid})
	}
	b.certify(m)
	b.nodes[id] = m
	return m
}

// certify gives a machine a new key.
func (b *Book) certify(m *Machine) {
	b.t.Helper()
	signer := pkitest.NewSigner(b.t)
	csr, err := pki.NewCSR(signer.Key)
	if err != nil {
		b.t.Fatal(err)
	}
	parsed, err := pki.ParseCSR(csr)
	if err != nil {
		b.t.Fatal(err)
	}
	cert, err := b.ca.Issuing.IssueNode(parsed, pki.NodeIdentity{NodeID: m.ID, Epoch: m.Epoch}, b.Now(), 24*time.Hour)
	if err != nil {
		b.t.Fatal(err)
	}
	m.key, m.IdentitySince = signer.Key, b.Now()
	m.keys = append(m.keys, issued{cert.Raw, cert.PublicKey, b.Now()})
}

// LetIn provisions a user, if the node accepts users.
func (b *Book) LetIn(id, allocation, tenant string, root bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.nodes[id]
	if m.Status != broker.Active || m.drain || m.cut || b.InRun != nil && b.InRun(id) != "" {
		return false
	}
	m.Users = append(m.Users, broker.Allocation{ID: allocation, NodeID: id, Username: "u-" + allocation, Tenant: tenant, HadRoot: root, Since: b.Now()})
	return true
}

// Machine is a copy of a node's present state.
func (b *Book) Machine(id string) Machine {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *b.nodes[id]
}

// Change changes a machine.
func (b *Book) Change(id string, f func(*Machine)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b.nodes[id])
}

// Verify reads a certificate as any holder of the trust file would.
func (b *Book) Verify(id string) (*certificate.Report, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return certificate.Verify(b.files[id], b.ca.Bundle, b.Now())
}

// Certificates are the ids of the issued certificates, in order.
func (b *Book) Certificates() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.issued)
}

// Tasks lists the tasks of a type that a node was asked for.
func (b *Book) Tasks(nodeID, taskType string) (out []broker.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.tasks {
		if k.NodeID == nodeID && k.Type == taskType {
			out = append(out, *k)
		}
	}
	slices.SortFunc(out, func(x, y broker.Task) int { return cmp.Compare(x.ID, y.ID) })
	return out
}

// Task is a task by its id; empty: none.
func (b *Book) Task(id string) broker.Task {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.tasks {
		if k.ID == id {
			return *k
		}
	}
	return broker.Task{}
}

// Node implements turnover.Nodes.
func (b *Book) Node(_ context.Context, id string) (broker.Node, error) {
	leave, err := b.enter("Node")
	if err != nil {
		return broker.Node{}, err
	}
	defer leave()
	return b.nodes[id].Node, nil
}

func (m *Machine) move(to broker.NodeStatus, reason string) error {
	if m.Status == to {
		return nil
	}
	if err := broker.Transition(m.Node, to, broker.OwnerTurnover); err != nil {
		return err
	}
	m.Status, m.StatusReason = to, reason
	return nil
}

// Disable implements turnover.Nodes.
func (b *Book) Disable(_ context.Context, id, runID, reason string, from broker.NodeStatus, ends []string) ([]broker.Allocation, error) {
	leave, err := b.enter("Disable")
	if err != nil {
		return nil, err
	}
	defer leave()
	m := b.nodes[id]
	if from != "" && m.Status != from {
		return nil, broker.Errorf(broker.Refused, "node_moved", "node %s was to be %s still, and is %s", id, from, m.Status)
	}
	live := m.live()
	if err := broker.AllocationsLive(m.Node, live, ends...); err != nil {
		return nil, err
	}
	if m.Status != broker.Retired {
		if err := m.move(broker.Draining, reason); err != nil {
			return nil, err
		}
	}
	m.TurnoverOwed = true
	b.force(runID, live)
	return live, nil
}

// ForceRelease implements turnover.Nodes.
func (b *Book) ForceRelease(_ context.Context, id, runID, _ string, ends []string) ([]broker.Allocation, error) {
	leave, err := b.enter("ForceRelease")
	if err != nil {
		return nil, err
	}
	defer leave()
	live := b.nodes[id].live()
	if err := broker.AllocationsLive(b.nodes[id].Node, live, ends...); err != nil {
		return nil, err
	}
	b.force(runID, live)
	return live, nil
}

// force notes the allocations ended for billing, once for each run.
func (b *Book) force(runID string, live []broker.Allocation) {
	for _, m := range b.nodes {
		for i := range m.Users {
			if slices.ContainsFunc(live, func(a broker.Allocation) bool { return a.ID == m.Users[i].ID && a.NodeID == m.Users[i].NodeID }) {
				m.Users[i].ForcedBy = runID
			}
		}
	}
	for _, a := range live {
		if key := runID + "/" + a.ID; !slices.Contains(b.Forced, key) {
			b.Forced = append(b.Forced, key)
		}
	}
}

// Allocations implements turnover.Nodes.
func (b *Book) Allocations(_ context.Context, id string) ([]broker.Allocation, error) {
	leave, err := b.enter("Allocations")
	if err != nil {
		return nil, err
	}
	defer leave()
	return slices.Clone(b.nodes[id].Users), nil
}

// Quarantine implements turnover.Nodes.
func (b *Book) Quarantine(_ context.Context, id, reason string) error {
	leave, err := b.enter("Quarantine")
	if err != nil {
		return err
	}
	defer leave()
	m := b.nodes[id]
	switch m.Status {
	case broker.Active, broker.Offline, broker.Draining, broker.Retired, broker.Quarantined:
	default:
		return nil // the node is out of use already
	}
	if err := m.move(broker.Quarantined, reason); err != nil {
		return err
	}
	m.TurnoverOwed = true
	return nil
}

// Enable implements turnover.Nodes.
func (b *Book) Enable(_ context.Context, id, runID, certificateID string, lifts turnover.Lifts) error {
	leave, err := b.enter("Enable")
	if err != nil {
		return err
	}
	defer leave()
	m := b.nodes[id]
	if v, ok := b.owed[certificateID]; !ok || b.of[certificateID] != runID || !v.MeetsPolicy || b.epoch[certificateID] != m.Epoch {
		return broker.Errorf(broker.Refused, "certificate_falls_short", "certificate %q does not let node %s in", certificateID, id)
	}
	if m.Status == broker.Active && !m.TurnoverOwed {
		return nil // the node was enabled, and the answer was lost
	}
	if err := broker.AllocationsLive(m.Node, m.live()); err != nil {
		return err
	}
	if m.conflict().After(lifts.Conflicts) {
		return broker.Errorf(broker.Refused, "kept_out_by_conflict", "two have the identity of node %s", id)
	}
	if m.Status == broker.Quarantined && m.ByPerson && !lifts.Person {
		return broker.Errorf(broker.Refused, "kept_out_by_person", "a person has put node %s in quarantine", id)
	}
	owed := m.TurnoverOwed
	m.TurnoverOwed = false
	if err := m.move(broker.Active, "turned over"); err != nil {
		m.TurnoverOwed = owed
		return err
	}
	m.Users, m.ByPerson = nil, false
	return nil
}

// conflict is the last time two parties had the node's present identity.
func (m *Machine) conflict() time.Time {
	if m.ConflictAt.Before(m.IdentitySince) {
		return time.Time{}
	}
	return m.ConflictAt
}

// Conflict lets two parties be seen with a node's identity, which keeps the node from use. A node
// that is shut out altogether has no conflict.
func (b *Book) Conflict(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.nodes[id]
	if m.cut || m.Status == broker.Removing || m.Status == broker.Deleted {
		return false
	}
	m.ConflictAt = b.Now()
	switch m.Status {
	case broker.Active, broker.Offline, broker.Draining, broker.Retired:
		m.Status, m.StatusReason = broker.Quarantined, "identity_conflict"
	}
	return true
}

// IdentityConflict implements turnover.Nodes.
func (b *Book) IdentityConflict(_ context.Context, id string) (time.Time, error) {
	leave, err := b.enter("IdentityConflict")
	if err != nil {
		return time.Time{}, err
	}
	defer leave()
	return b.nodes[id].conflict(), nil
}

// live are the allocations whose user may be there.
func (m Machine) live() (out []broker.Allocation) {
	for _, a := range m.Users {
		if a.Live() {
			out = append(out, a)
		}
	}
	return out
}

// Live are the ids of the live allocations, as a request to end them names them.
func (m Machine) Live() (ids []string) {
	for _, a := range m.live() {
		ids = append(ids, a.ID)
	}
	return ids
}

// Parts implements turnover.Nodes.
func (b *Book) Parts(_ context.Context, id string) (turnover.Parts, error) {
	leave, err := b.enter("Parts")
	if err != nil {
		return turnover.Parts{}, err
	}
	defer leave()
	return b.nodes[id].Parts, nil
}

// Accept has an operator accept a downgrade in a run.
func (b *Book) Accept(runID string, d certificate.Downgrade) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accepts[runID] = append(b.accepts[runID], d)
}

// Accepted implements turnover.Nodes.
func (b *Book) Accepted(_ context.Context, runID string) ([]certificate.Downgrade, error) {
	leave, err := b.enter("Accepted")
	if err != nil {
		return nil, err
	}
	defer leave()
	return slices.Clone(b.accepts[runID]), nil
}

// Certify implements turnover.Nodes.
func (b *Book) Certify(_ context.Context, c *certificate.Clean) (certificate.Verdict, error) {
	leave, err := b.enter("Certify")
	if err != nil {
		return certificate.Verdict{}, err
	}
	defer leave()
	if v, had := b.owed[c.ID]; had {
		return v, nil
	}
	c.IssuedAt = b.Now()
	file, err := certificate.Issue(c, b.ca.Statement)
	if err != nil {
		return certificate.Verdict{}, err
	}
	b.files[c.ID], b.owed[c.ID], b.of[c.ID], b.epoch[c.ID] = file, c.Verdict, c.Run.ID, c.Node.Epoch
	b.issued = append(b.issued, c.ID)
	return c.Verdict, nil
}

func raw(v any) json.RawMessage {
	out, err := taskcatalog.Encode(v)
	if err != nil {
		panic(err)
	}
	return out
}
