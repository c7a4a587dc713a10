package turnovertest

import (
	"crypto"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

// Machine is a node with the state that its agent would find.
type Machine struct {
	broker.Node
	Parts turnover.Parts
	Users []broker.Occupant
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
	// Image is what MAAS installed last.
	Image string
	// Unlike lists the differences of the fresh system from the first system.
	Unlike []string
	// Residue are the findings of a validation.
	Residue []taskcatalog.Finding
	// Short is how many bytes an erase misses of a disk.
	Short uint64
	// NotMade are the checks that the agent cannot make. Unknown are checks that the agent does
	// not know: its signed result leaves them out.
	NotMade, Unknown []string

	// Unended is an operation that may still run on the node; empty: none.
	Unended string

	root bool // a tenant had root since the last reimage with a certificate

	// ByPerson: a person has quarantined the node.
	ByPerson bool
	// ConflictAt is the last time two parties had the node's identity.
	ConflictAt time.Time

	key   crypto.Signer
	keys  []issued
	drain bool // the drain mark
	token string
	// State after the machine was given back.
	denied  bool      // the former system is shut out
	by      string    // the last run that shut it out
	wiped   bool      // MAAS has had the machine back since
	shownAt time.Time // a certificate of the former system was shown
	forgot  bool
}

// Denied reports whether all certificates of the node are denied.
func (m *Machine) Denied() bool { return m.denied }

// ShownAt is when a certificate from before the last wipe was shown; zero: never.
func (m *Machine) ShownAt() time.Time { return m.shownAt }

type issued struct {
	der []byte
	pub crypto.PublicKey
	at  time.Time
}

// Add adds an active node with a system disk and the given number of GPUs.
func (b *Book) Add(id string, gpus int) *Machine {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &Machine{Node: broker.Node{
		ID: id, Hostname: "gpu-" + id[len(id)-2:], Site: "dc1", SKU: "h100", Status: broker.Active, Epoch: 1,
		AgentVersion: "0.1.0",
	}}
	m.Parts.Devices = []broker.Device{{
		Kind: broker.DeviceDisk, ID: "BOSS-" + id, Model: "BOSS", State: broker.DeviceFound,
		Role: broker.RoleSystem,
	}}
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
