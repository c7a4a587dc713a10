package records

import (
	"context"
	"crypto"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	agentrecords "github.com/hostler/hostler/broker/agentlifecycle/records"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/presence"
	"github.com/hostler/hostler/broker/rollout"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/wire"
)

var ada = broker.Actor{Name: "ada"}

type trust int64

func (v trust) Version() int64 { return int64(v) }

// signer signs tasks as a broker does.
type signer struct{ *pkitest.Authority }

func (s signer) SignTask(_ context.Context, task taskcatalog.Task, _ int64) ([]byte, string, error) {
	payload, err := taskcatalog.Encode(task)
	if err != nil {
		return nil, "", err
	}
	raw, err := pki.Sign(pki.PayloadTask, payload, s.Task)
	return raw, s.Task.ID, err
}

const (
	before = "1.3.0"
	after  = "1.4.0"
)

// updateTakes is how long an agent of the fleet takes for an update.
const updateTakes = 20 * time.Second

// simulated is a node of a fleet: its agent's behaviour, and the program that really runs.
type simulated struct {
	taskqueue.Peer
	pkitest.Node
	runs     string
	commit   string
	makes    string // of the release: "" well, rolled_back, unwell, or mute: silent after confirmation
	renewals int
	work     *wire.Delivery // the update in hand
	until    time.Time
	given    map[string]int // counts deliveries by version
}

// fleet is a broker's records and engine over the real store and the real task queue, with many
// agents.
type fleet struct {
	*testing.T
	db        *store.DB
	clock     *storetest.Clock
	nodes     Nodes
	authority *pkitest.Authority
	engine    *chain.Engine
	all       []*simulated
	heard     time.Time       // when all agents were last heard
	watch     *presence.Watch // nil: nobody marks nodes offline
}

func eachFleet(t *testing.T, n int, f func(*fleet)) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) { f(newFleet(t, db, clock, n)) })
}

func newFleet(t *testing.T, db *store.DB, clock *storetest.Clock, n int) *fleet {
	t.Helper()
	s := &fleet{T: t, db: db, clock: clock, authority: pkitest.NewAt(t, db.Now())}
	starts := &turnoverrecords.Starts{DB: db}
	queue := taskqueue.New(taskqueue.Config{DB: db, Signer: signer{s.authority}, Rand: rand.Reader})
	s.nodes = Nodes{&agentrecords.Nodes{DB: db, Queue: queue, Trust: trust(1), Starts: starts}}
	var err error
	kinds := append((&agentlifecycle.Chains{Nodes: s.nodes}).All(), (&rollout.Chains{Nodes: s.nodes}).Rollout())
	s.engine, err = chain.New(db, classes(), chain.Options{}, kinds...)
	s.ok(err)
	starts.Runs = s.engine
	s.publish(before, "stable")
	s.publish(after, "stable")
	for i := range n {
		s.all = append(s.all, s.join(i))
	}
	return s
}

func (f *fleet) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// program is the digest of the program of a version.
func program(version string) string { return release.Digest([]byte(version))[len("sha256:"):] }

func (f *fleet) publish(version, channel string) {
	f.Helper()
	s := &release.Statement{
		Schema: release.Schema, Version: version, Commit: "c-1", OS: release.OS, Arch: release.Arch, Binary: release.Binary{SHA256: program(version), Size: 1},
		StateSchema: release.State, Protocol: release.Protocol, BuiltAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	raw, err := s.Encode()
	f.ok(err)
	_, err = f.db.PublishRelease(f.Context(), ada, store.AgentRelease{
		Version: version, Digest: release.Digest([]byte(version + channel)), Channel: channel, Reference: "registry:5000/agent", Manifest: []byte(version), Statement: raw,
	})
	f.ok(err)
}

// letIn puts a tenant on a node.
func (f *fleet) letIn(node, allocation, tenant string) {
	f.Helper()
	params, err := taskcatalog.Encode(taskcatalog.ProvisionUserParams{AllocationID: allocation, Username: "u", Tenant: tenant, SSHKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIA2gT4F2m5C1yqXZ7u0cSxkq1sBzqH4q5l0S9m3v0aA u"}})
	f.ok(err)
	_, _, err = f.nodes.Queue.Enqueue(f.Context(), ada, taskqueue.Request{NodeID: node, Type: "allocation.provision_user", Params: params})
	f.ok(err)
}

func classes() chain.Classes {
	out := chain.Classes{}
	for _, h := range broker.FailureHandlings {
		ends := chain.FailedRetryable
		if h.Person {
			ends = chain.FailedManual
		}
		out[chain.Class(h.Class)] = chain.Handling{Retry: h.Retry, Rescue: h.Rescue, Ends: ends, NextAction: h.NextAction()}
	}
	return out
}

// join enrols a node and puts it into service.
func (f *fleet) join(i int) *simulated {
	f.Helper()
	id, token := fmt.Sprintf("n-%03d", i), fmt.Sprintf("h-%03d", i)
	_, err := f.db.CreateNode(f.Context(), ada, store.NewNode{ID: id, Hostname: fmt.Sprintf("g%03d", i), Bootstrap: "command", TokenHash: token, TokenExpires: f.db.Now().Add(time.Hour)})
	f.ok(err)
	s := &simulated{Node: f.authority.NewNode(f.T), runs: before, commit: "c-1.3.0", given: map[string]int{}}
	cert := s.Cert.Leaf
	s.Peer = taskqueue.Peer{NodeID: id, Epoch: 1, Serial: pki.Serial(cert), Key: cert.PublicKey, Certified: cert.NotBefore.Add(pki.Backdate)}
	_, err = f.db.Enroll(f.Context(), store.EnrollInput{
		TokenHash: token, PublicKeyDigest: f.key(s), TrustVersion: 1, Report: s.report(),
		Issue: func(broker.Node, int64) (store.IssuedCert, error) { return f.issued(s), nil },
	})
	f.ok(err)
	_, err = f.db.FirstContact(f.Context(), id, 1, s.Serial)
	f.ok(err)
	f.ok(f.db.SaveBaseline(f.Context(), ada, id, "sha256:b", []byte("{}"), "test"))
	_, err = f.db.Transition(f.Context(), ada, id, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"})
	f.ok(err)
	return s
}

func (f *fleet) key(s *simulated) string {
	key, err := pki.PublicKeyDigest(s.Key)
	f.ok(err)
	return key
}

func (f *fleet) issued(s *simulated) store.IssuedCert {
	serial := s.Serial
	if s.renewals > 0 {
		serial += fmt.Sprintf("-%d", s.renewals)
	}
	return store.IssuedCert{Serial: serial, PEM: "p", PublicKey: s.Cert.Leaf.RawSubjectPublicKeyInfo, NotBefore: s.Cert.Leaf.NotBefore, NotAfter: f.db.Now().Add(24 * time.Hour)}
}

func (s *simulated) report() store.NodeReport {
	return store.NodeReport{
		AgentVersion: s.runs, TaskTypes: taskcatalog.IDs(), Digest: fmt.Sprintf("d-%s-%d", s.runs, s.renewals),
		Agent: &taskcatalog.AgentBuild{Commit: s.commit, SHA256: program(s.runs)},
	}
}

// become gives the machine another program.
func (s *simulated) become(version string) { s.runs, s.commit = version, "c-1" }

// renew is an agent's renewal, on request and after its start.
func (f *fleet) renew(s *simulated) {
	f.Helper()
	s.renewals++
	_, err := f.db.RecordRenewal(f.Context(), store.Renewal{NodeID: s.NodeID, Epoch: 1, OldSerial: s.Serial, PublicKeyDigest: f.key(s), Cert: f.issued(s), Report: s.report(), TrustVersion: 1})
	f.ok(err)
}

// live runs the agents at the present moment.
func (f *fleet) live() {
	f.Helper()
	now := f.db.Now()
	if now.Sub(f.heard) >= time.Minute {
		f.heard = now
		heard := map[string]time.Time{}
		for _, s := range f.all {
			if s.makes != "mute" || s.runs != after {
				heard[s.NodeID] = now
			}
		}
		f.ok(f.db.TouchNodes(f.Context(), heard))
	}
	if f.watch != nil {
		f.ok(f.watch.Look(f.Context()))
	}
	nodes, _, err := f.db.ListNodes(f.Context(), store.NodeFilter{})
	f.ok(err)
	asked := map[string]bool{}
	for _, n := range nodes {
		asked[n.ID] = n.ReportDigest == ""
	}
	queued := map[string]bool{}
	tasks, _, err := f.db.ListTasks(f.Context(), store.TaskFilter{Statuses: []broker.TaskStatus{broker.TaskQueued}, Limit: 10000})
	f.ok(err)
	for _, k := range tasks {
		queued[k.NodeID] = true
	}
	for _, s := range f.all {
		if asked[s.NodeID] {
			f.renew(s)
		}
		if s.work != nil {
			if !now.Before(s.until) {
				f.updated(s)
			}
			continue
		}
		if !queued[s.NodeID] {
			continue
		}
		reply, err := f.nodes.Queue.Wait(f.Context(), s.Peer, []taskcatalog.Lane{taskcatalog.LaneExclusive, taskcatalog.LaneConcurrent}, 0)
		f.ok(err)
		for _, d := range reply.Tasks {
			f.does(s, d)
		}
	}
}

func (f *fleet) opened(d wire.Delivery) *taskcatalog.Task {
	f.Helper()
	env, err := pki.ParseEnvelope([]byte(d.Envelope))
	f.ok(err)
	task, err := f.authority.Bundle.VerifyTask(env, f.db.Now())
	f.ok(err)
	return task
}

func (f *fleet) does(s *simulated, d wire.Delivery) {
	f.Helper()
	switch task := f.opened(d); task.Type {
	case "node.self_update":
		s.work, s.until = &d, f.db.Now().Add(updateTakes)
	case "node.heartbeat_check":
		if s.runs == after && s.makes == "unwell" {
			f.answer(s, d, taskcatalog.OutcomeFailed, taskcatalog.HeartbeatCheckResult{})
			return
		}
		f.answer(s, d, taskcatalog.OutcomeSucceeded, taskcatalog.HeartbeatCheckResult{AgentVersion: s.runs, BootID: "b", UptimeSeconds: 1, Now: f.db.Now(), RootFreeBytes: 1})
	case "allocation.provision_user": // it takes long
	default:
		f.Fatalf("node %s is asked for %s", s.NodeID, task.Type)
	}
}

// updated ends the update in hand: the node runs the version and reports it, or has restored the
// previous version.
func (f *fleet) updated(s *simulated) {
	f.Helper()
	d := *s.work
	s.work = nil
	var p taskcatalog.SelfUpdateParams
	f.ok(json.Unmarshal(f.opened(d).Params, &p))
	s.given[p.Version]++
	r := taskcatalog.SelfUpdateResult{Phase: p.Phase, FromVersion: s.runs, ToVersion: p.Version, Outcome: taskcatalog.UpdateConfirmed, Seconds: updateTakes.Seconds(), SwitchSeconds: 5, Slots: []taskcatalog.UpdateSlot{}}
	if p.Version == after && s.makes == "rolled_back" {
		r.Outcome, r.Reason = taskcatalog.UpdateRolledBack, "no_contact"
		f.answer(s, d, taskcatalog.OutcomeFailed, r)
		return
	}
	s.become(p.Version)
	f.renew(s)
	f.answer(s, d, taskcatalog.OutcomeSucceeded, r)
}

func (f *fleet) answer(s *simulated, d wire.Delivery, outcome taskcatalog.Outcome, result any) {
	f.Helper()
	task := f.opened(d)
	raw, err := json.Marshal(result)
	f.ok(err)
	ev := taskcatalog.Evidence{
		TaskID: task.TaskID, TaskDigest: pki.Digest([]byte(d.Envelope)), NodeID: s.NodeID, NodeEpoch: 1, BootID: "boot",
		Nonce: task.Nonce, StartedAt: f.db.Now(), FinishedAt: f.db.Now(), AgentVersion: s.runs, Outcome: outcome, ResultDigest: pki.Digest(raw),
	}
	req := wire.ResultRequest{Attempt: d.Attempt, Outcome: outcome, Result: raw}
	if outcome == taskcatalog.OutcomeFailed {
		ev.Code, req.Code = "update_failed", "update_failed"
	}
	signed, err := pki.SignEvidence(ev, s.Cert.PrivateKey.(crypto.Signer))
	f.ok(err)
	req.Evidence = string(signed)
	_, err = f.nodes.Queue.Result(f.Context(), s.Peer, d.TaskID, req)
	f.ok(err)
}

// roll starts a rollout to all nodes.
func (f *fleet) roll(change func(*rollout.Request)) string {
	f.Helper()
	id, err := f.tryRoll(change)
	f.ok(err)
	return id
}

func (f *fleet) tryRoll(change func(*rollout.Request)) (string, error) {
	f.Helper()
	r, err := f.nodes.Release(f.Context(), after, false)
	f.ok(err)
	all, err := broker.ParseSelector("all")
	f.ok(err)
	candidates, err := f.nodes.Candidates(f.Context(), all, nil)
	f.ok(err)
	req := rollout.Request{
		Release: r, Selector: "all", OnFailure: rollout.Pause, Safety: broker.OnlyIdle, RequestedBy: "ada", Reason: "better",
		Plan: rollout.Plan{Canary: 2, Waves: []int{10, 50, 100}, Concurrency: 20, SoakSeconds: 60, MaxFailures: 4},
	}
	change(&req)
	s, err := rollout.New(req, candidates)
	if err != nil {
		return "", err
	}
	rec, err := f.engine.Start(f.Context(), chain.Start{Kind: rollout.Kind, Site: broker.NoSite, State: s, RequestedBy: "ada"})
	return rec.ID, err
}

// settle runs the broker and the agents until the rollout moves no more.
func (f *fleet) settle(id string) (chain.Record, rollout.Rollout) {
	f.Helper()
	return f.until(id, func(r chain.Record) bool { return !r.Status.Moving() })
}

func (f *fleet) until(id string, holds func(chain.Record) bool) (chain.Record, rollout.Rollout) {
	f.Helper()
	for range 2000 {
		for {
			worked, err := f.engine.Step(f.Context())
			f.ok(err)
			if !worked {
				break
			}
		}
		r, err := f.db.Run(f.Context(), id)
		f.ok(err)
		if holds(r) {
			s, err := rollout.Load(f.Context(), f.nodes.Members, r)
			f.ok(err)
			return r, s
		}
		f.clock.Advance(5 * time.Second)
		f.live()
	}
	f.Fatal("it does not come to that")
	return chain.Record{}, rollout.Rollout{}
}

func (f *fleet) members(r chain.Record) []rollout.Member {
	f.Helper()
	s, err := rollout.Load(f.Context(), f.nodes.Members, r)
	f.ok(err)
	return s.Members
}

// truthful compares a rollout's statements about its nodes with the nodes.
func (f *fleet) truthful(s rollout.Rollout) {
	f.Helper()
	for _, m := range s.Members {
		i := slices.IndexFunc(f.all, func(s *simulated) bool { return s.NodeID == m.NodeID })
		n, want := f.all[i], before
		if m.Result == rollout.Done {
			want = after
		}
		recorded, err := f.db.Node(f.Context(), m.NodeID)
		f.ok(err)
		if n.runs != want || recorded.AgentVersion != want {
			f.Errorf("%s is %s, runs %s and is on record with %s", m.NodeID, m.Result, n.runs, recorded.AgentVersion)
		}
		if n.given[after] > 1 || n.given[before] > 1 {
			f.Errorf("%s was given %v", m.NodeID, n.given)
		}
	}
	tasks, _, err := f.db.ListTasks(f.Context(), store.TaskFilter{Limit: 100000})
	f.ok(err)
	for _, k := range tasks {
		if !k.Status.Ended() {
			f.Errorf("task %s (%s) of %s is %s", k.ID, k.Type, k.NodeID, k.Status)
		}
	}
}
