package records

import (
	"context"
	"crypto"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation"
	operationrecords "github.com/hostler/hostler/broker/operation/records"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/turnover"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

var ada = broker.Actor{Name: "ada"}

const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIA2gT4F2m5C1yqXZ7u0cSxkq1sBzqH4q5l0S9m3v0aA"

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

// statements signs statements as a broker does.
type statements struct{ pki.Signer }

func (s statements) StatementSigner(context.Context) (pki.Signer, error) { return s.Signer, nil }

// site is a broker's records over the real store and the real task queue, with nodes of one SKU. Only
// the turnover is a stand-in: it takes the node, certifies it and hands it out.
type site struct {
	*testing.T
	db        *store.DB
	clock     *storetest.Clock
	authority *pkitest.Authority
	records   *Records
	engine    *chain.Engine
	watch     *Watch
	nodes     map[string]*agent
	at        string // the site of the nodes that join
	inMAAS    bool   // the nodes that join are machines of MAAS
	certified bool   // the turnover's certificate meets the policy
	slow      bool   // no turnover ends
	refuses   bool   // the nodes refuse accounts
	shut      string // a node that refuses accounts
	asked     []string
	fails     bool // operations fail
	hangs     bool // operations do not end before they are cancelled
	deaf      bool // the nodes hear no cancel
	hung      map[string]wire.Delivery
}

type agent struct {
	pkitest.Node
	taskqueue.Peer
}

func eachSite(t *testing.T, nodes int, f func(s *site)) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		s := &site{T: t, db: db, clock: clock, authority: pkitest.NewAt(t, db.Now()), nodes: map[string]*agent{}, certified: true, hung: map[string]wire.Delivery{}}
		s.boot()
		s.tenant()
		for i := range nodes {
			s.join(fmt.Sprintf("n-%d", i))
		}
		f(s)
	})
}

// boot makes the parts of a broker that has just started.
func (s *site) boot() {
	s.Helper()
	starts := &turnoverrecords.Starts{DB: s.db}
	queue := taskqueue.New(taskqueue.Config{DB: s.db, Signer: signer{s.authority}, Rand: rand.Reader})
	operations := &operationrecords.Records{DB: s.db, Queue: queue, Signer: statements{s.authority.Statement}}
	s.records = &Records{DB: s.db, Queue: queue, Starts: starts, Operations: operations}
	kinds := append((&allocation.Chains{Records: s.records}).All(), (&operation.Chains{Records: operations}).All()...)
	var err error
	s.engine, err = chain.New(s.db, classes(), chain.Options{}, append(kinds, s.turnover(turnover.SoftReset), s.turnover(turnover.Reimage))...)
	s.ok(err)
	starts.Runs = s.engine
	s.watch = &Watch{DB: s.db, Starts: starts, Runs: s.engine, Log: zap.NewNop()}
}

func classes() chain.Classes {
	out := chain.Classes{}
	for _, h := range broker.FailureHandlings {
		ends := chain.FailedRetryable
		if h.Person {
			ends = chain.FailedManual
		}
		out[chain.Class(h.Class)] = chain.Handling{Retry: h.Retry, Rescue: h.Rescue, Ends: ends, NextAction: h.NextAction(), UndoAction: h.UndoAction()}
	}
	return out
}

// turnover is a chain with the name and the state of a mode.
func (s *site) turnover(m turnover.Mode) chain.Kind {
	return chain.Chain[turnover.Turnover]{Kind: m.Kind(), Stages: []chain.Stage[turnover.Turnover]{{
		Name: "all", Do: func(ctx context.Context, r *chain.Run[turnover.Turnover]) error {
			if s.slow {
				return chain.Again(time.Second, "it takes long")
			}
			u := store.Turnover{NodeID: r.State.NodeID, RunID: r.ID, Reason: r.State.Reason}
			forced, err := s.db.BeginTurnover(ctx, broker.System, u, r.State.Ends...)
			if err != nil {
				return err
			}
			if len(forced) > 0 {
				return chain.Fail(broker.ResidueFound, "an account is on the node")
			}
			n, err := s.db.Node(ctx, u.NodeID)
			if err != nil {
				return err
			}
			if image := r.State.Machine.Policy.DistroSeries; m == turnover.Reimage {
				if err := s.db.RecordImage(ctx, broker.System, n.ID, n.Epoch, broker.NodeImage{Name: broker.ImageName(image), RunID: r.ID}); err != nil {
					return err
				}
			}
			if _, err := s.db.KeepCleanCertificate(ctx, broker.System, store.CleanCertificate{
				ID: "c-" + r.ID, RunID: r.ID, NodeID: n.ID, NodeEpoch: n.Epoch, Mode: "soft_reset", MeetsPolicy: s.certified, Digest: "sha256:c",
				IssuedAt: s.db.Now(), ValidUntil: s.db.Now().Add(time.Hour), File: []byte("{}"),
			}); err != nil {
				return err
			}
			if _, err := s.db.Transition(ctx, broker.System, n.ID, store.Change{To: broker.Retired, By: broker.OwnerDrain}); err != nil {
				return err
			}
			if err := s.db.EndTurnover(ctx, broker.System, u, "c-"+r.ID); err != nil {
				return chain.Fail(broker.PolicyNotMet, "%w", err)
			}
			return nil
		},
	}}}
}

func (s *site) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// tenant makes two projects with a member, a key and a quota each, and the SKU.
func (s *site) tenant() {
	s.Helper()
	k := broker.NewSKU()
	k.ID = "h100"
	_, err := s.db.CreateSKU(s.Context(), ada, k)
	s.ok(err)
	_, err = s.db.CreateOrganisation(s.Context(), ada, broker.Organisation{ID: "org-1", Name: "acme"})
	s.ok(err)
	for _, p := range []string{"p-1", "p-2"} {
		_, err = s.db.CreateProject(s.Context(), ada, broker.Project{ID: p, OrganisationID: "org-1", Name: p})
		s.ok(err)
		_, err = s.db.SetQuota(s.Context(), ada, broker.Quota{ProjectID: p, SKU: "h100", Nodes: 10}, "")
		s.ok(err)
		_, err = s.db.AddMember(s.Context(), ada, broker.Member{
			ID: "m-" + p, Subject: "eve-" + p, Place: broker.Place{OrganisationID: "org-1", ProjectID: p}, Role: broker.RoleProjectMember,
		})
		s.ok(err)
		_, err = s.db.AddSSHKey(s.Context(), ada, broker.SSHKey{ID: "k-" + p, MemberID: "m-" + p, Type: "ssh-ed25519", PublicKey: key, Fingerprint: "SHA256:" + p})
		s.ok(err)
	}
}

// join enrols a node of the SKU and puts it into service.
func (s *site) join(id string) {
	s.Helper()
	system := ""
	if s.inMAAS {
		system = "abcd" + strings.ReplaceAll(id, "-", "")
	}
	_, err := s.db.CreateNode(s.Context(), ada, store.NewNode{ID: id, Hostname: "gpu-" + id, Site: s.at, MAASSystemID: system, SKU: "h100", Bootstrap: "command", TokenHash: "h-" + id, TokenExpires: s.db.Now().Add(time.Hour)})
	s.ok(err)
	a := &agent{Node: s.authority.NewNode(s.T)}
	cert := a.Cert.Leaf
	a.Peer = taskqueue.Peer{NodeID: id, Epoch: 1, Serial: pki.Serial(cert), Key: cert.PublicKey, Certified: cert.NotBefore.Add(pki.Backdate)}
	digest, err := pki.PublicKeyDigest(a.Key)
	s.ok(err)
	_, err = s.db.Enroll(s.Context(), store.EnrollInput{
		TokenHash: "h-" + id, PublicKeyDigest: digest, TrustVersion: 1, MAASSystemID: system,
		Report: store.NodeReport{AgentVersion: "1.3.0", TaskTypes: taskcatalog.IDs(), Digest: "d"},
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: a.Serial, PEM: "p", PublicKey: cert.RawSubjectPublicKeyInfo, NotBefore: cert.NotBefore, NotAfter: s.db.Now().Add(24 * time.Hour)}, nil
		},
	})
	s.ok(err)
	_, err = s.db.FirstContact(s.Context(), id, 1, a.Serial)
	s.ok(err)
	s.ok(s.db.SaveBaseline(s.Context(), ada, id, "sha256:b", []byte("{}"), "test"))
	_, err = s.db.Transition(s.Context(), ada, id, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"})
	s.ok(err)
	s.nodes[id] = a
}

func (s *site) ask(id string, nodes int, change ...func(*store.NewAllocation)) broker.Allocation {
	s.Helper()
	n := store.NewAllocation{
		ID: id, ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: nodes}, KeyIDs: []string{"k-p-1"},
	}
	for _, f := range change {
		f(&n)
	}
	a, err := s.db.CreateAllocation(s.Context(), ada, n)
	s.ok(err)
	return a
}

// settle lets everything happen that happens by itself, for some minutes.
func (s *site) settle() {
	s.Helper()
	s.settleFor(5 * time.Minute)
}

// settleFor is settle for a time.
func (s *site) settleFor(d time.Duration) {
	s.Helper()
	const turn = 5 * time.Second
	for range d / turn {
		heard := map[string]time.Time{}
		for id := range s.nodes {
			heard[id] = s.db.Now()
		}
		s.ok(s.db.TouchNodes(s.Context(), heard))
		s.ok(s.watch.look(s.Context()))
		for worked := true; worked; {
			var err error
			worked, err = s.engine.Step(s.Context())
			s.ok(err)
		}
		s.answerAll()
		s.clock.Advance(turn)
	}
}

// answerAll has each node carry out its tasks.
func (s *site) answerAll() {
	s.Helper()
	for _, a := range s.nodes {
		reply, err := s.records.Queue.Wait(s.Context(), a.Peer, []taskcatalog.Lane{taskcatalog.LaneExclusive, taskcatalog.LaneConcurrent}, 0)
		s.ok(err)
		for _, d := range reply.Tasks {
			s.answer(a, d)
		}
		for _, id := range reply.Cancel {
			if d, hung := s.hung[id]; hung && !s.deaf {
				s.answer(a, d)
			}
		}
	}
}

func (s *site) answer(a *agent, d wire.Delivery) {
	s.Helper()
	env, err := pki.ParseEnvelope([]byte(d.Envelope))
	s.ok(err)
	task, err := s.authority.Bundle.VerifyTask(env, s.db.Now())
	s.ok(err)
	s.asked = append(s.asked, task.Type)
	var result any
	outcome, code := taskcatalog.OutcomeSucceeded, taskcatalog.Code("")
	if s.refuses || s.shut == a.NodeID {
		outcome, code = taskcatalog.OutcomeRefused, "node_draining"
	}
	switch task.Type {
	case "allocation.provision_user":
		var p taskcatalog.ProvisionUserParams
		s.ok(json.Unmarshal(task.Params, &p))
		if p.Username != broker.AllocationAccount || p.Tenant != "p-1" || len(p.SSHKeys) != 1 || !strings.HasPrefix(p.SSHKeys[0], key) || p.Sudo {
			s.Errorf("the node is asked for %+v", p)
		}
		result = taskcatalog.ProvisionUserResult{UID: 2000, GID: 2000, Home: "/home/tenant", Created: true}
	case "allocation.check_login":
		var p taskcatalog.CheckLoginParams
		s.ok(json.Unmarshal(task.Params, &p))
		if p.Username != broker.AllocationAccount || p.Address != "" || len(p.SSHKeys) != 1 {
			s.Errorf("the node is asked for %+v", p)
		}
		result = taskcatalog.CheckLoginResult{Address: "10.0.0.7", KeyTypes: []string{"ssh-ed25519"}, HostKey: key}
	case "allocation.revoke_user":
		result = taskcatalog.RevokeUserResult{UID: 2000, Existed: true}
	case "operation.run":
		result = carriedOut(s.T, task.Params, s.fails)
		switch before, hung := s.hung[d.TaskID]; {
		case hung && before.Attempt == d.Attempt:
			outcome, code = taskcatalog.OutcomeCanceled, taskcatalog.CodeCanceled
		case s.hangs:
			s.hung[d.TaskID] = d
			return
		case s.fails:
			outcome, code = taskcatalog.OutcomeFailed, taskcatalog.CodeStepFailed
		}
	default:
		s.Fatalf("node %s is asked for %s", a.Peer.NodeID, task.Type)
	}
	raw, err := json.Marshal(result)
	s.ok(err)
	ev := taskcatalog.Evidence{
		TaskID: task.TaskID, TaskDigest: pki.Digest([]byte(d.Envelope)), NodeID: a.Peer.NodeID, NodeEpoch: 1, BootID: "boot",
		Nonce: task.Nonce, StartedAt: s.db.Now(), FinishedAt: s.db.Now(), AgentVersion: "1.3.0", Outcome: outcome, Code: code,
		ResultDigest: pki.Digest(raw),
	}
	signed, err := pki.SignEvidence(ev, a.Cert.PrivateKey.(crypto.Signer))
	s.ok(err)
	_, err = s.records.Queue.Result(s.Context(), a.Peer, d.TaskID, wire.ResultRequest{
		Attempt: d.Attempt, Outcome: outcome, Code: code, Result: raw, Evidence: string(signed),
	})
	s.ok(err)
}

func (s *site) release(id string) {
	s.Helper()
	_, err := s.db.TransitionAllocation(s.Context(), ada, id, store.AllocationChange{To: broker.AllocationReleasing, By: broker.AllocationUser, Reason: "done"})
	s.ok(err)
}

func (s *site) stands(id string, status broker.AllocationStatus, code string) broker.Allocation {
	s.Helper()
	a, err := s.db.Allocation(s.Context(), id)
	s.ok(err)
	if a.Status != status || a.Code != code {
		s.Errorf("allocation %s is %s %q, want %s %q", id, a.Status, a.Code, status, code)
	}
	return a
}

// The node of an allocation that ended is the next tenant's, and each has a certificate of its own.
func TestANodeGoesFromTenantToTenantWithProof(t *testing.T) {
	eachSite(t, 2, func(s *site) {
		s.ask("a-1", 2)
		s.settle()
		s.stands("a-1", broker.AllocationActive, "")
		s.release("a-1")
		s.settle()
		first := s.stands("a-1", broker.AllocationReleased, "")
		s.ask("a-2", 1)
		s.settle()
		s.stands("a-2", broker.AllocationActive, "")
		logins, err := s.db.AllocationLogins(s.Context(), []string{"a-2"})
		if s.ok(err); len(logins["a-2"]) != 1 || logins["a-2"][0].Address != "10.0.0.7" || !strings.HasPrefix(key, logins["a-2"][0].HostKey) || logins["a-2"][0].HostKey == "" {
			s.Errorf("the tenant is told to log in at %+v", logins)
		}
		s.release("a-2")
		s.settle()
		second := s.stands("a-2", broker.AllocationReleased, "")
		if len(first.CertificateIDs) != 2 || len(second.CertificateIDs) != 1 || strings.Contains(strings.Join(first.CertificateIDs, " "), second.CertificateIDs[0]) {
			s.Errorf("certificates: %v, then %v", first.CertificateIDs, second.CertificateIDs)
		}
		if got := len(s.asked); got != 9 { // an account made, proven and ended on two nodes, then on one
			s.Errorf("the nodes were asked for %v", s.asked)
		}
	})
}

// A certificate that does not meet the policy releases nothing, and a second try of the same tenant
// goes on.
func TestACertificateThatFallsShortReleasesNothing(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.ask("a-1", 1)
		s.settle()
		s.certified = false
		s.release("a-1")
		s.settle()
		a := s.stands("a-1", broker.AllocationReleaseFailed, "cleaning_failed")
		if !a.ReleasedAt.IsZero() || len(a.CertificateIDs) > 0 {
			s.Errorf("it is released: %+v", a)
		}
		if _, err := s.db.CreateAllocation(s.Context(), ada, store.NewAllocation{
			ID: "a-2", ProjectID: "p-2", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1}, KeyIDs: []string{"k-p-2"},
		}); broker.AsError(err).Code != "sku_unavailable" {
			s.Errorf("the node is given to another: %v", err)
		}
	})
}

func TestAnAllocationIsReleasedWhenItsEndHasCome(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.ask("a-1", 1, func(n *store.NewAllocation) { n.EndsAt = s.db.Now().Add(10 * time.Minute) })
		s.settle()
		s.stands("a-1", broker.AllocationActive, "")
		s.clock.Advance(10 * time.Minute)
		s.settle()
		s.stands("a-1", broker.AllocationReleased, "")
	})
}

// A key of another project, an ended key and an ended member let nobody in.
func TestOnlyLiveKeysOfTheProjectLetIn(t *testing.T) {
	for name, spoil := range map[string]func(s *site, n *store.NewAllocation){
		"another project's": func(_ *site, n *store.NewAllocation) { n.KeyIDs = []string{"k-p-2"} },
		"none":              func(_ *site, n *store.NewAllocation) { n.KeyIDs = nil },
		"one of two ended": func(s *site, n *store.NewAllocation) {
			_, err := s.db.AddSSHKey(s.Context(), ada, broker.SSHKey{ID: "k-2", MemberID: "m-p-1", Type: "ssh-ed25519", PublicKey: key + "B", Fingerprint: "SHA256:2"})
			s.ok(err)
			_, err = s.db.EndSSHKey(s.Context(), ada, "m-p-1", "k-2", "lost")
			s.ok(err)
			n.KeyIDs = []string{"k-p-1", "k-2"}
		},
		"of an ended member": func(s *site, _ *store.NewAllocation) {
			_, err := s.db.EndMember(s.Context(), ada, "m-p-1", "left")
			s.ok(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachSite(t, 1, func(s *site) {
				s.ask("a-1", 1, func(n *store.NewAllocation) { spoil(s, n) })
				s.settle()
				s.stands("a-1", broker.AllocationFailed, "ssh_key_not_found")
				if len(s.asked) > 0 {
					s.Errorf("the node was asked for %v", s.asked)
				}
				s.ask("a-2", 1, func(n *store.NewAllocation) { n.ProjectID = "p-2" }) // the node is free again
			})
		})
	}
}

// A key of the organisation's own member is good in each of its projects.
func TestAKeyOfTheOrganisationLetsIn(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		_, err := s.db.AddMember(s.Context(), ada, broker.Member{ID: "m-org", Subject: "olga", Place: broker.Place{OrganisationID: "org-1"}, Role: broker.RoleTenantAdmin})
		s.ok(err)
		_, err = s.db.AddSSHKey(s.Context(), ada, broker.SSHKey{ID: "k-org", MemberID: "m-org", Type: "ssh-ed25519", PublicKey: key, Fingerprint: "SHA256:o"})
		s.ok(err)
		s.ask("a-1", 1, func(n *store.NewAllocation) { n.KeyIDs = []string{"k-org"} })
		s.settle()
		s.stands("a-1", broker.AllocationActive, "")
	})
}

// A node that refuses the account is turned over before the next tenant gets it, and once.
func TestANodeThatRefusesTheAccountIsTurnedOverOnce(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.refuses = true
		s.ask("a-1", 1)
		s.settle()
		failed := s.stands("a-1", broker.AllocationFailed, "node_not_ready")
		s.refuses = false
		s.ask("a-2", 1)
		s.settle()
		s.stands("a-2", broker.AllocationActive, "")
		// A give-back whose save was lost looks again, and leaves the node to its tenant.
		proven, err := s.records.Proven(s.Context(), failed)
		s.ok(err)
		if proven["n-0"] == "" {
			s.Errorf("the node is not known to be turned over: %v", proven)
		}
		all, err := s.db.Runs(s.Context(), chain.Filter{Kind: broker.TurnoverKinds})
		s.ok(err)
		if len(all) != 1 || all[0].Status != chain.Completed {
			s.Errorf("turnovers: %+v", all)
		}
	})
}

// Two brokers that look at the same time begin one run.
func TestARunIsBegunOnce(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		a := s.ask("a-1", 1)
		for range 2 {
			s.ok(s.watch.begin(s.Context(), a))
		}
		all, err := s.db.Runs(s.Context(), chain.Filter{Kind: broker.ProvisionKind})
		s.ok(err)
		if len(all) != 1 {
			s.Errorf("%d runs were begun", len(all))
		}
	})
}
