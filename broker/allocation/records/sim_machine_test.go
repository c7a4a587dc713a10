//go:build !race

package records

import (
	"context"
	"crypto"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

var ctx = context.Background()

// machine is a node with its agent. Its fields are the ledger: what is on it, whatever the broker knows.
type machine struct {
	s    *simulation
	id   string
	key  crypto.Signer
	peer taskqueue.Peer

	accounts map[string]string    // by allocation, the project
	left     map[string]time.Time // when the account of an allocation went
	traces   []string             // allocations with an account since the last certificate that let the node in
	dirty    bool                 // a tenant's data is on it
	clean    bool                 // the last inspection found nothing, and no account was made since

	// Troubles.
	silent  bool                        // the agent does not answer
	gone    bool                        // the machine never comes back
	residue bool                        // an inspection finds something that no cleaning removes
	fails   map[string]taskcatalog.Code // types of task that fail
	refuses bool                        // the agent refuses accounts
	loses   bool                        // results are lost on the way

	image     string // that is installed
	toInstall string // by the turnover that has begun

	unsent []sent

	ran map[string]string // by operation, its last task here

	failing map[string]bool // allocations whose broker knows that the account or the login failed here
	row     int             // allocations in a row that failed because of this node alone
}

// sent is a result of a task.
type sent struct {
	task, kind, allocation string
	wire.ResultRequest
}

// join enrols a node of the SKU and puts it into service.
func (s *simulation) join(id string) {
	m := &machine{s: s, id: id, accounts: map[string]string{}, left: map[string]time.Time{}, fails: map[string]taskcatalog.Code{}, failing: map[string]bool{}, ran: map[string]string{}, clean: true}
	_, err := s.db.CreateNode(ctx, ada, store.NewNode{
		ID: id, Hostname: "gpu-" + id, Site: s.site.Name, SKU: "h100", Bootstrap: "command", TokenHash: "h-" + id, TokenExpires: s.clock.Now().Add(time.Hour),
	})
	s.must(err)
	report := report()
	report.Facts = &taskcatalog.Facts{Keys: map[string]string{}, ChassisSerial: "CH-" + id, DisksListed: true, Disks: []taskcatalog.DiskFacts{{
		Name: "sda", Serial: "BOSS-" + id, SizeBytes: 1 << 40, Transport: "sata", System: true,
	}}}
	cert := m.certify()
	_, err = s.db.Enroll(ctx, store.EnrollInput{
		TokenHash: "h-" + id, PublicKeyDigest: m.digest(), TrustVersion: 1, Report: report,
		Issue: func(broker.Node, int64) (store.IssuedCert, error) { return cert, nil },
	})
	s.must(err)
	_, err = s.db.FirstContact(ctx, id, 1, cert.Serial)
	s.must(err)
	baseline, err := taskcatalog.Encode(taskcatalog.Baseline{TakenAt: s.clock.Now()})
	s.must(err)
	s.must(s.db.SaveBaseline(ctx, ada, id, pki.Digest(baseline), baseline, "test"))
	_, err = s.db.Transition(ctx, ada, id, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"})
	s.must(err)
	s.machines = append(s.machines, m)
}

func report() store.NodeReport {
	return store.NodeReport{AgentVersion: "1.3.0", TaskTypes: taskcatalog.IDs(), Digest: "d"}
}

// certify gives the machine a new key with its certificate.
func (m *machine) certify() store.IssuedCert {
	key, err := pki.GenerateKey(pki.Ed25519)
	m.s.must(err)
	raw, err := pki.NewCSR(key)
	m.s.must(err)
	csr, err := pki.ParseCSR(raw)
	m.s.must(err)
	cert, err := authority.Issuing.IssueNode(csr, pki.NodeIdentity{NodeID: m.id, Epoch: 1}, m.s.clock.Now(), 90*24*time.Hour)
	m.s.must(err)
	m.key = key
	m.peer = taskqueue.Peer{NodeID: m.id, Epoch: 1, Serial: pki.Serial(cert), Key: cert.PublicKey, Certified: cert.NotBefore.Add(pki.Backdate)}
	return store.IssuedCert{
		Serial: m.peer.Serial, PEM: string(pki.MarshalCerts(cert)), PublicKey: cert.RawSubjectPublicKeyInfo, NotBefore: cert.NotBefore, NotAfter: cert.NotAfter,
	}
}

func (m *machine) digest() string {
	d, err := pki.PublicKeyDigest(m.key.Public())
	m.s.must(err)
	return d
}

// poll has the agent send what it has not sent, fetch its tasks and carry them out.
func (m *machine) poll(q *taskqueue.Queue) (worked bool) {
	if m.silent || m.gone {
		return false
	}
	for len(m.unsent) > 0 {
		if m.loses && m.s.chance(60) {
			return false
		}
		r := m.unsent[0]
		m.unsent = m.unsent[1:]
		m.send(q, r)
		worked = true
	}
	reply, err := q.Wait(ctx, m.peer, []taskcatalog.Lane{taskcatalog.LaneExclusive, taskcatalog.LaneConcurrent}, 0)
	if !m.s.may(err) {
		return worked
	}
	for _, d := range reply.Tasks {
		r := m.carryOut(d)
		if m.loses {
			m.unsent = append(m.unsent, r)
			continue
		}
		m.send(q, r)
	}
	return worked || len(reply.Tasks) > 0
}

// send reports a result. A broker may refuse a result that comes too late.
func (m *machine) send(q *taskqueue.Queue, r sent) {
	_, err := q.Result(ctx, m.peer, r.task, r.ResultRequest)
	if !m.s.may(err) || r.kind != provisionUser && r.kind != checkLogin {
		return
	}
	c := m.s.known[r.allocation]
	switch succeeded := r.Outcome == taskcatalog.OutcomeSucceeded; {
	case succeeded && r.kind == checkLogin:
		m.row = 0
		delete(m.failing, r.allocation)
	case !succeeded && c != nil && slices.Contains([]broker.AllocationStatus{broker.AllocationRequested, broker.AllocationProvisioning}, c.status):
		m.failing[r.allocation] = true
	}
}

// carryOut does a task, and signs what the agent saw.
func (m *machine) carryOut(d wire.Delivery) sent {
	env, err := pki.ParseEnvelope([]byte(d.Envelope))
	m.s.must(err)
	task, err := authority.Bundle.VerifyTask(env, m.s.clock.Now())
	if err != nil {
		m.s.wrong("node %s does not accept task %s: %v", m.id, d.TaskID, err)
		return sent{task: d.TaskID, ResultRequest: wire.ResultRequest{Attempt: d.Attempt, Outcome: taskcatalog.OutcomeRefused, Code: "not_valid_now"}}
	}
	m.s.counts["tasks"]++
	ev := taskcatalog.Evidence{
		TaskID: task.TaskID, TaskDigest: pki.Digest([]byte(d.Envelope)), NodeID: m.id, NodeEpoch: 1, BootID: "boot", Nonce: task.Nonce,
		StartedAt: m.s.clock.Now(), FinishedAt: m.s.clock.Now(), AgentVersion: "1.3.0", Outcome: taskcatalog.OutcomeSucceeded,
	}
	out := wire.ResultRequest{Attempt: d.Attempt, Outcome: taskcatalog.OutcomeSucceeded}
	code, fails := m.fails[task.Type]
	refused := m.refuses && task.Type == provisionUser
	switch {
	case refused:
		ev.Outcome, ev.Code = taskcatalog.OutcomeRefused, "node_draining"
	case fails:
		if m.s.chance(50) { // the work was done, and then something failed
			_, _ = m.result(task, &ev)
		}
		ev = taskcatalog.Evidence{
			TaskID: ev.TaskID, TaskDigest: ev.TaskDigest, NodeID: ev.NodeID, NodeEpoch: 1, BootID: "boot", Nonce: ev.Nonce, StartedAt: ev.StartedAt,
			FinishedAt: ev.FinishedAt, AgentVersion: ev.AgentVersion, Outcome: taskcatalog.OutcomeFailed, Code: code,
		}
	default:
		result, failure := m.result(task, &ev)
		if failure != "" {
			ev.Outcome, ev.Code = taskcatalog.OutcomeFailed, failure
			break
		}
		if out.Result, err = taskcatalog.Encode(result); err == nil {
			ev.ResultDigest = pki.Digest(out.Result)
		}
		m.s.must(err)
	}
	out.Outcome, out.Code = ev.Outcome, ev.Code
	signed, err := pki.SignEvidence(ev, m.key)
	m.s.must(err)
	out.Evidence = string(signed)
	var of struct {
		AllocationID string `json:"allocation_id"`
	}
	_ = json.Unmarshal(task.Params, &of) // other tasks are of no allocation
	return sent{d.TaskID, task.Type, of.AllocationID, out}
}

// result applies a task to the machine.
func (m *machine) result(task *taskcatalog.Task, ev *taskcatalog.Evidence) (any, taskcatalog.Code) {
	switch task.Type {
	case provisionUser:
		var p taskcatalog.ProvisionUserParams
		m.s.must(json.Unmarshal(task.Params, &p))
		return m.makeAccount(p), ""
	case "allocation.revoke_user":
		var p taskcatalog.RevokeUserParams
		m.s.must(json.Unmarshal(task.Params, &p))
		_, had := m.accounts[p.AllocationID]
		if delete(m.accounts, p.AllocationID); had {
			m.left[p.AllocationID] = m.s.clock.Now()
		}
		return taskcatalog.RevokeUserResult{UID: 2000, Existed: had}, ""
	case checkLogin:
		return taskcatalog.CheckLoginResult{Address: "10.0.0.7", KeyTypes: []string{"ssh-ed25519"}, HostKey: key}, ""
	case operationRun:
		return m.operates(task), ""
	case "node.drain":
		return taskcatalog.DrainResult{Drained: true}, ""
	case "node.storage_cleanup":
		m.dirty = m.dirty && len(m.accounts) > 0
		return taskcatalog.StorageCleanupResult{FilesRemoved: 3}, ""
	case "node.rotate_identity":
		return m.rotate(task.TaskID)
	case "node.validate_clean":
		return m.inspect(ev), ""
	}
	m.s.wrong("node %s is asked for %s", m.id, task.Type)
	return nil, "handler_failed"
}

const (
	provisionUser = "allocation.provision_user"
	checkLogin    = "allocation.check_login"
)

// makeAccount lets a tenant in, and holds the rules about who may come.
func (m *machine) makeAccount(p taskcatalog.ProvisionUserParams) taskcatalog.ProvisionUserResult {
	_, had := m.accounts[p.AllocationID]
	for _, other := range slices.Sorted(maps.Keys(m.accounts)) {
		if other != p.AllocationID {
			m.s.wrong("allocation %s is let in on node %s, where allocation %s has its account", p.AllocationID, m.id, other)
		}
	}
	for _, other := range m.traces {
		if other != p.AllocationID {
			m.s.wrong("allocation %s is let in on node %s, which has no certificate since allocation %s", p.AllocationID, m.id, other)
		}
	}
	switch c := m.s.known[p.AllocationID]; {
	case c == nil:
		m.s.wrong("allocation %s is let in on node %s, and nobody has asked for it", p.AllocationID, m.id)
	case !slices.Contains(c.nodes, m.id):
		m.s.wrong("allocation %s is let in on node %s, which it does not hold", p.AllocationID, m.id)
	case c.image != "" && c.image != m.image:
		m.s.wrong("allocation %s is let in on node %s with image %q, and asked for %s", p.AllocationID, m.id, m.image, c.image)
	case p.Tenant != c.project.id || len(p.SSHKeys) != 1 || !strings.HasPrefix(p.SSHKeys[0], c.project.key) || p.Username != broker.AllocationAccount || p.Sudo:
		m.s.wrong("allocation %s of project %s is let in on node %s as %+v", p.AllocationID, c.project.id, m.id, p)
	}
	if !slices.Contains(m.traces, p.AllocationID) {
		m.traces = append(m.traces, p.AllocationID)
	}
	m.accounts[p.AllocationID], m.dirty, m.clean = p.Tenant, true, false
	delete(m.left, p.AllocationID)
	m.s.counts["accounts"]++
	return taskcatalog.ProvisionUserResult{UID: 2000, GID: 2000, Home: "/home/tenant", Created: !had}
}

// inspect looks for what a tenant has left.
func (m *machine) inspect(ev *taskcatalog.Evidence) taskcatalog.ValidateCleanResult {
	for _, name := range taskcatalog.LookedAt() {
		ev.Checks = append(ev.Checks, taskcatalog.Check{Name: name, Made: true})
	}
	if m.residue || m.dirty || len(m.accounts) > 0 {
		ev.Find(taskcatalog.Finding{Check: "users", Subject: "mallory"})
	}
	ev.Judge()
	m.clean = ev.Verdict == taskcatalog.VerdictClean
	return taskcatalog.ValidateCleanResult{Verdict: ev.Verdict, Findings: len(ev.Findings), ChecksMade: len(ev.Checks)}
}

// rotate gives the machine a new key, which the broker certifies.
func (m *machine) rotate(taskID string) (any, taskcatalog.Code) {
	key, peer := m.key, m.peer
	cert := m.certify()
	_, err := m.s.db.Rotate(ctx, taskID, store.Renewal{
		NodeID: m.id, Epoch: 1, OldSerial: peer.Serial, PublicKeyDigest: m.digest(), Cert: cert, Report: report(), TrustVersion: 1,
	})
	if !m.s.may(err) {
		m.key, m.peer = key, peer
		return nil, "rotation_refused"
	}
	_, err = m.s.db.RotationUsed(ctx, m.id, 1, cert.Serial)
	m.s.must(err)
	return taskcatalog.RotateIdentityResult{Serial: cert.Serial, KeySHA256: strings.TrimPrefix(m.digest(), "sha256:"), NotAfter: cert.NotAfter.UTC()}, ""
}

func (m *machine) String() string {
	return fmt.Sprintf("%s: accounts %v, traces %v, dirty %v, clean %v, silent %v, gone %v, residue %v, fails %v, refuses %v", m.id,
		slices.Sorted(maps.Keys(m.accounts)), m.traces, m.dirty, m.clean, m.silent, m.gone, m.residue, m.fails, m.refuses)
}
