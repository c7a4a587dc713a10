package nodeapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// restore marks the broker's database as just restored from a backup.
func (b *testBroker) restore() store.Voided {
	b.t.Helper()
	v, err := b.db.MarkRestored(b.t.Context(), admin, b.clock.Now().Add(-time.Hour), "a backup")
	must0(b.t, err)
	b.advance(time.Minute) // a serving broker sees the restore with the deny list
	return v
}

// lost is an identity that the broker issued after the backup, so that nothing of it is on record.
func (b *testBroker) lost(id string, epoch int64, bundle *pki.TrustBundle) *testNode {
	b.t.Helper()
	n := b.machine()
	n.id, n.epoch, n.bundle = id, epoch, bundle
	csr := must(pki.ParseCSR([]byte(n.csr())))(b.t)
	_, chain, err := b.trust.IssueNode(csr, pki.NodeIdentity{NodeID: id, Epoch: epoch}, b.clock.Now(), DefaultCertLife)
	must0(b.t, err)
	n.adopt(string(pki.MarshalCerts(chain...)))
	return n
}

// says records MAAS's statement about a node's machine.
func (b *testBroker) says(n *testNode, word string) {
	b.t.Helper()
	must0(b.t, b.db.SaveMachineWords(b.t.Context(), []store.MachineWord{{NodeID: n.id, Word: word, Is: "as the test says"}}))
}

// asked is the key that asked last for a node, in the form of the list.
func (b *testBroker) asked(n *testNode) string {
	b.t.Helper()
	for _, r := range must(b.db.RestoredNodes(b.t.Context()))(b.t) {
		if r.NodeID == n.id {
			return r.Asked()
		}
	}
	return ""
}

func (b *testBroker) accepts(n *testNode, reason string) {
	b.t.Helper()
	must(b.db.AcceptRestored(b.t.Context(), admin, n.id, b.asked(n), reason))(b.t)
}

func (n *testNode) renews() {
	n.b.t.Helper()
	var reply wire.RenewReply
	n.post(n.path("/renew"), n.renewRequest()).into(&reply)
	n.adopt(reply.Certificate)
}

func (n *testNode) polls() {
	n.b.t.Helper()
	n.get(n.path("/tasks/wait?lanes=nothing")).refused(n.b, 422, "bad_lanes")
}

func (b *testBroker) differs(subject, code string) {
	b.t.Helper()
	for _, d := range must(b.db.Differences(b.t.Context()))(b.t) {
		if d.Subject == subject && d.Code == code {
			return
		}
	}
	b.t.Errorf("no difference %s of %s is listed", code, subject)
}

func TestACertificateFromBeforeTheRestoreDoesNothingButAsk(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		n := b.member()
		lost := b.lost(n.id, 2, n.bundle)
		before := func(who *testNode) bool { return must(b.BeforeRestore(t.Context(), pki.Serial(who.cert.Leaf)))(t) }
		if before(n) || before(lost) {
			t.Error("where nothing was restored a certificate is from before")
		}
		b.restore()
		for _, who := range []*testNode{n, lost} {
			if !before(who) {
				t.Error("who asks as the relay does takes it for one of now")
			}
			who.get(who.path("/tasks/wait?lanes=exclusive,concurrent")).refused(b, 403, "certificate_expired")
			for _, path := range []string{"/tasks/t-1/progress", "/tasks/t-1/result", "/tasks/t-1/credentials/mint"} {
				who.post(who.path(path), []byte("{}")).refused(b, 403, "certificate_expired")
			}
		}
		a := n.post(n.path("/renew"), n.renewRequest())
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("with nobody's word on the node: %d %s", a.status, a.body)
		}
		if certs := must(db.Certificates(t.Context(), n.id))(t); len(certs) != 1 {
			t.Errorf("%d certificates on record", len(certs))
		}
	})
}

// The node keeps the agent that it runs, and nothing puts an older one back. A difference from the
// backup is listed.
func TestAnAgentThatWasUpdatedSinceTheBackupIsListed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		n, same := b.member(), b.member()
		b.restore()
		for _, who := range []*testNode{n, same} {
			b.says(who, store.MachineSame)
		}
		same.renews()
		request := n.renewRequest()
		request.AgentVersion = "1.1.0"
		n.post(n.path("/renew"), request).into(&wire.RenewReply{})
		b.differs("node/"+n.id, "agent_updated")
		found := must(db.Differences(t.Context()))(t)
		if len(found) != 1 || !strings.Contains(found[0].Text, "agent is 1.1.0, and was 1.0.0 in the backup") || !strings.Contains(found[0].Text, "not published here") {
			t.Errorf("listed: %+v", found)
		}
		if rec := must(db.Node(t.Context(), n.id))(t); rec.AgentVersion != "1.1.0" {
			t.Errorf("the broker believes that it runs %s", rec.AgentVersion)
		}
	})
}

func TestMAASSpeaksForANodeWhileTheDatabaseIsHeld(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		n := b.member()
		must(db.Transition(t.Context(), admin, n.id, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
		b.restore()
		b.says(n, store.MachineSame)
		old := *n
		n.renews()
		n.polls()
		old.get(old.path("/tasks/wait?lanes=")).refused(b, 403, "certificate_expired")

		probe := b.enqueue(n, "node.heartbeat_check", `{}`)
		drain := b.enqueue(n, "node.drain", `{}`)
		var got wire.WaitReply
		n.get(n.path("/tasks/wait?lanes=exclusive,concurrent")).into(&got)
		if len(got.Tasks) != 1 || got.Tasks[0].TaskID != probe.ID {
			t.Fatalf("handed out while held: %+v", got.Tasks)
		}
		must(db.ReleaseRestore(t.Context(), admin, "compared"))(t)
		n.get(n.path("/tasks/wait?lanes=exclusive,concurrent")).into(&got)
		if len(got.Tasks) != 1 || got.Tasks[0].TaskID != drain.ID {
			t.Errorf("after the release: %+v", got.Tasks)
		}
	})
}

func TestWhoIsNotTheNodeOfNowIsNotLetIn(t *testing.T) {
	for _, tt := range []struct {
		name, word string
		who        func(b *testBroker, n *testNode) *testNode
		code       string
		difference string
	}{
		{"a machine that was given back", store.MachineOther, func(_ *testBroker, n *testNode) *testNode { return n }, "restored_not_accepted", ""},
		{"the system of before a reimage", store.MachineNewer, func(_ *testBroker, n *testNode) *testNode { return n }, "restored_not_accepted", ""},
		{"one of an earlier epoch", store.MachineSame, func(b *testBroker, n *testNode) *testNode {
			_, token := b.reissue(n.id)
			b.machine().enroll(token) // and was not heard yet
			return n
		}, "epoch_superseded", ""},
		{"a newer epoch on a machine that was given back", store.MachineOther, func(b *testBroker, n *testNode) *testNode { return b.lost(n.id, 2, n.bundle) }, "restored_not_accepted", ""},
		{"a node that the backup does not know", store.MachineSame, func(b *testBroker, n *testNode) *testNode { return b.lost("n-aaaaaaaaaaaaaaaa", 1, n.bundle) }, "restored_unknown_node", "node_unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBroker(t)
			n := b.member()
			who := tt.who(b, n)
			b.restore()
			b.says(n, tt.word)
			a := who.post(who.path("/renew"), who.renewRequest())
			a.refused(b, 403, tt.code)
			who.get(who.path("/tasks/wait?lanes=")).refused(b, 403, "certificate_expired")
			if tt.difference != "" {
				b.differs("node/"+who.id, tt.difference)
			}
			if got := must(b.db.Certificates(t.Context(), n.id))(t); !got[len(got)-1].IssuedAt.Before(b.clock.Now()) {
				t.Error("a certificate was issued all the same")
			}
		})
	}
}

func TestANodeThatEnrolledAgainAfterTheBackupBringsItsEpoch(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		n := b.member()
		must(db.Transition(t.Context(), admin, n.id, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
		b.advance(time.Minute)
		now := b.lost(n.id, 3, n.bundle)
		b.restore()
		b.says(n, store.MachineNewer)
		earlier := b.enqueue(n, "node.heartbeat_check", `{}`)
		now.renews()
		now.polls()
		if k := must(db.Task(t.Context(), earlier.ID))(t); k.Status != broker.TaskFailed || k.Code != "node_reenrolled" {
			t.Errorf("a task for the system of before is %s with %s", k.Status, k.Code)
		}
		rec := must(db.Node(t.Context(), n.id))(t)
		if rec.Epoch != 3 || rec.Status != broker.Quarantined {
			t.Errorf("the node is %s at epoch %d", rec.Status, rec.Epoch)
		}
		b.differs("node/"+n.id, "enrolled_again")
		b.advance(0) // the replaced certificate is on the deny list now
		n.connect(n.cert)
		n.post(n.path("/renew"), n.renewRequest()).shutOut(b, "certificate_denied")
	})
}

// A thief with a key that was replaced after the backup may be faster than the node.
func TestTheNewerOfTwoIdentitiesIsTheNodes(t *testing.T) {
	for _, epoch := range []int64{1, 2} { // a rotation, and an enrolment
		storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
			b := newBrokerOn(t, db, clock)
			thief := b.member()
			b.advance(time.Hour)
			n := b.lost(thief.id, epoch, thief.bundle)
			b.restore()
			b.says(n, store.MachineSame)
			before := *thief
			thief.renews()
			thief.polls()
			n.renews()
			n.polls()
			b.differs("node/"+n.id, "two_identities")
			b.advance(0)
			thief.connect(thief.cert)
			thief.get(thief.path("/tasks/wait?lanes=")).shutOut(b, "certificate_denied")
			before.connect(before.cert)
			before.post(before.path("/renew"), before.renewRequest()).shutOut(b, "certificate_denied")

			late := b.lost(n.id, epoch, n.bundle) // issued in time, by a CA that is not asked
			r := late.renewRequest()
			r.CSR = n.csr()
			late.post(late.path("/renew"), r).refused(b, 403, "renew_key_changed")
		})
	}
}

func TestAnOperatorSpeaksForANode(t *testing.T) {
	b := newBroker(t)
	n, other := b.member(), b.member()
	b.restore()
	if _, err := b.db.AcceptRestored(t.Context(), admin, n.id, b.asked(n), "seen"); broker.AsError(err).Code != "restored_not_asked" {
		t.Errorf("accepted before anybody asked: %v", err)
	}
	n.post(n.path("/renew"), n.renewRequest())
	b.accepts(n, "I stood before it")
	must(b.db.ReleaseRestore(t.Context(), admin, "compared"))(t)
	n.renews()
	n.polls()

	// The hold is over: MAAS's statement lets nobody in any more.
	b.says(other, store.MachineSame)
	other.post(other.path("/renew"), other.renewRequest()).refused(b, 403, "restored_not_accepted")
	b.accepts(other, "it was off")
	other.renews()
	other.polls()
}

func TestWhatWasAcceptedIsAKeyAndNotANode(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	b.advance(time.Hour)
	lost := b.lost(n.id, 1, n.bundle)
	b.restore()
	b.says(n, store.MachineOther)
	n.post(n.path("/renew"), n.renewRequest()).refused(b, 403, "restored_not_accepted")
	b.accepts(n, "it is this one")
	lost.post(lost.path("/renew"), lost.renewRequest()).refused(b, 403, "restored_not_accepted")
	n.renews()
	n.polls()
	lost.post(lost.path("/renew"), lost.renewRequest()).refused(b, 403, "restored_not_accepted")

	// A person may correct a wrong decision.
	b.accepts(n, "no, it is the other one")
	b.advance(0)
	n.connect(n.cert)
	n.get(n.path("/tasks/wait?lanes=")).shutOut(b, "certificate_denied")
	lost.renews()
	lost.polls()
}

func TestTokensFromBeforeTheRestoreEnrolNobody(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		_, unused := b.create(store.NewNode{})
		_, lostAnswer := b.create(store.NewNode{})
		half := b.machine()
		half.enroll(lostAnswer) // and was not heard
		n := b.member()
		b.lost(n.id, 4, n.bundle)
		lost := b.lost(n.id, 4, n.bundle)
		if v := b.restore(); v.EnrolTokens != 3 {
			t.Errorf("%d tokens are void", v.EnrolTokens)
		}
		b.machine().post(enrollPath, b.machine().enrollRequest(unused)).refused(b, 409, "token_used")
		half.post(enrollPath, half.enrollRequest(lostAnswer)).refused(b, 409, "token_used")

		// A new token is the operator's present decision, and its enrolment is newer than
		// everything seen so far.
		lost.post(lost.path("/renew"), lost.renewRequest())
		_, token := b.reissue(n.id)
		anew := b.machine()
		anew.enroll(token)
		anew.polls()
		if anew.epoch <= b.clock.Now().Add(-time.Hour).Unix() {
			t.Errorf("enrolled at epoch %d, which the first restore of the backup may have given out", anew.epoch)
		}
		lost.post(lost.path("/renew"), lost.renewRequest()).refused(b, 403, "epoch_superseded")
		b.advance(0)
		n.connect(n.cert)
		n.post(n.path("/renew"), n.renewRequest()).shutOut(b, "certificate_denied")
	})
}

func TestNoTaskComesWithAnEnrolmentWhileTheDatabaseIsHeld(t *testing.T) {
	b := newBroker(t)
	b.wantSet()
	id, _ := b.create(store.NewNode{})
	b.want()
	b.restore()
	_, token := b.reissue(id)
	n := b.machine()
	var reply wire.EnrollReply
	n.post(enrollPath, n.enrollRequest(token)).into(&reply)
	if reply.ResolverConfig != nil {
		t.Error("a task that changes the node came with the answer")
	}
}

// In the backup a node has a certificate for another key, but was not heard with it yet. The node's
// next request shows which of the two keys it uses.
func TestARotationThatTheBackupCutInTwoIsDecidedByWhoAsks(t *testing.T) {
	for name, taken := range map[string]bool{"the node took the new key": true, "it never did": false} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t)
			r := b.rotating()
			b.advance(30 * time.Second)
			next := r.successor()
			b.restore()
			b.says(next, store.MachineSame)
			n := r.testNode
			if taken {
				n = next
			}
			n.renews()
			n.polls()
			b.advance(16 * time.Hour)
			n.renews() // as ever
			if got := b.node(n); got.Status != broker.Active || b.conflicts(n) > 0 {
				t.Errorf("the node is %s: %s", got.Status, got.StatusReason)
			}
		})
	}
}

// What an operator ended after the restore does not come back through a certificate without a
// record.
func TestWhatWasEndedSinceTheRestoreStaysEnded(t *testing.T) {
	for name, tt := range map[string]struct {
		end    func(b *testBroker, n *testNode)
		before bool // before: never let in until then, but accepted
	}{
		"every certificate is denied": {func(b *testBroker, n *testNode) { must0(b.t, b.db.DenyNode(b.t.Context(), admin, n.id, "stolen")) }, false},
		"its machine is released": {func(b *testBroker, n *testNode) {
			must0(b.t, b.db.CutOff(b.t.Context(), admin, store.Turnover{NodeID: n.id, RunID: "r-1"}))
		}, false},
		"it is retired": {func(b *testBroker, n *testNode) {
			must(b.db.Transition(b.t.Context(), admin, n.id, store.Change{To: broker.Draining, By: broker.OwnerOperator}))(b.t)
			must(b.db.Transition(b.t.Context(), admin, n.id, store.Change{To: broker.Retired, By: broker.OwnerDrain}))(b.t)
		}, false},
		"it was accepted and denied before it came": {func(b *testBroker, n *testNode) { must0(b.t, b.db.DenyNode(b.t.Context(), admin, n.id, "stolen")) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				b := newBrokerOn(t, db, clock)
				onRecord := b.member()
				must(db.Transition(t.Context(), admin, onRecord.id, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
				b.advance(time.Minute)
				n := b.lost(onRecord.id, 1, onRecord.bundle)
				thief := *n // has the key, and the certificate of the lost hour
				b.restore()
				b.says(n, store.MachineSame)
				if tt.before {
					b.says(n, store.MachineOther)
					n.post(n.path("/renew"), n.renewRequest()).refused(b, 403, "restored_not_accepted")
					b.accepts(n, "I stood before it")
				} else {
					n.renews()
				}
				tt.end(b, n)
				b.says(n, store.MachineSame) // MAAS has not heard of the denial
				b.advance(time.Minute)
				another := b.lost(n.id, 1, n.bundle)
				for _, released := range []bool{false, true} {
					if released {
						must(db.ReleaseRestore(t.Context(), admin, "compared"))(t)
					}
					for _, who := range []*testNode{&thief, onRecord, another} {
						who.connect(who.cert)
						if a := who.post(who.path("/renew"), who.renewRequest()); a.status == http.StatusOK {
							t.Errorf("released %v: a certificate is issued for what was ended", released)
						}
					}
				}
			})
		})
	}
}

// The older certificates of the same key, on record or not, were not denied themselves.
func TestADeniedKeyIsDeniedInEveryCertificateFromBefore(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	b.restore()
	b.says(n, store.MachineSame)
	old := *n
	n.renews()
	n.polls()
	must0(t, b.db.Deny(t.Context(), admin, pki.Serial(n.cert.Leaf), "stolen"))
	b.advance(0)
	old.connect(old.cert)
	old.post(old.path("/renew"), old.renewRequest()).refused(b, 403, "certificate_denied")
}

func TestAReplacedKeyDoesNotComeBackByALostCertificate(t *testing.T) {
	b := newBroker(t)
	onRecord := b.member()
	must(b.db.Transition(t.Context(), admin, onRecord.id, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
	b.advance(time.Minute)
	n := b.lost(onRecord.id, 1, onRecord.bundle)
	thief := *n
	b.restore()
	b.says(n, store.MachineSame)
	n.renews()
	n.polls()
	must(b.db.ReleaseRestore(t.Context(), admin, "compared"))(t)
	b.advance(time.Minute)
	r := b.rotate(n)
	next := r.successor()
	r.heard(next)
	b.advance(time.Minute)
	thief.connect(thief.cert)
	thief.post(thief.path("/renew"), thief.renewRequest()).refused(b, 403, "certificate_denied")
	b.advance(0)
	next.polls()
}

// Once the node was heard with its new certificate, no answer was lost.
func TestWhatIsFromBeforeRenewsNoMoreOnceTheNodeIsHeard(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	b.restore()
	b.says(n, store.MachineSame)
	old := *n
	n.renews()
	b.advance(time.Second)
	again := old
	again.renews() // the answer was lost
	again.polls()
	b.flushContacts(t.Context())
	for range 2 { // repeated requests do not help
		b.advance(time.Minute)
		old.post(old.path("/renew"), old.renewRequest()).refused(b, 403, "restored_not_accepted")
	}
	b.differs("node/"+n.id, "two_identities")
	again.polls()
}

// A newer certificate of the lost hour that nobody confirms takes nothing from the node.
func TestWhoIsNotLetInPutsNobodyOut(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	b.advance(time.Hour)
	thief := b.lost(n.id, 1, n.bundle)
	b.restore()
	b.says(n, store.MachineSame)
	n.renews()
	n.polls()
	must(b.db.ReleaseRestore(t.Context(), admin, "compared"))(t)
	thief.post(thief.path("/renew"), thief.renewRequest()).refused(b, 403, "restored_not_accepted")
	b.advance(0)
	n.connect(n.cert)
	n.polls()
	n.renews()
	n.polls()
}

// A hold may come while a replica serves: this replica does not lead, and no other does at that
// moment.
func TestABrokerThatServesSeesTheRestore(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	n.polls()
	poll := n.waits(t.Context(), "")
	must(b.db.MarkRestored(t.Context(), admin, b.clock.Now(), "a backup"))(t)
	b.advance(denyListReread)
	if a := <-poll; a.err != nil || a.status != http.StatusNoContent {
		t.Errorf("who waited was answered %d %s (%v)", a.status, a.body, a.err)
	}
	n.get(n.path("/tasks/wait?lanes=")).refused(b, 403, "certificate_expired")
	b.reread(t.Context())
	n.get(n.path("/tasks/wait?lanes=")).refused(b, 403, "certificate_expired")
	if a := n.post(n.path("/renew"), n.renewRequest()); a.status != http.StatusServiceUnavailable {
		t.Errorf("it renews: %d %s", a.status, a.body)
	}
}

// Between a look at the list and the acceptance, another key may ask.
func TestWhoIsAcceptedIsWhoWasSeen(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	b.advance(time.Hour)
	thief := b.lost(n.id, 1, n.bundle)
	b.restore()
	b.says(n, store.MachineOther)
	n.post(n.path("/renew"), n.renewRequest()).refused(b, 403, "restored_not_accepted")
	seen := b.asked(n)
	if len(seen) != 16 {
		t.Errorf("the key is shown as %q", seen)
	}
	thief.post(thief.path("/renew"), thief.renewRequest()).refused(b, 403, "restored_not_accepted")
	for _, key := range []string{seen, "", b.asked(n)[:8]} {
		if _, err := b.db.AcceptRestored(t.Context(), admin, n.id, key, "it is this one"); broker.AsError(err).Code != "restored_other_key" {
			t.Errorf("key %q is accepted, and another has asked last: %v", key, err)
		}
	}
	thief.post(thief.path("/renew"), thief.renewRequest()).refused(b, 403, "restored_not_accepted")
}

func TestNoKeyFromBeforeIsAcceptedForANodeThatEnrolledAnew(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	b.restore()
	n.post(n.path("/renew"), n.renewRequest())
	_, token := b.reissue(n.id)
	anew := b.machine()
	anew.enroll(token)
	if _, err := b.db.AcceptRestored(t.Context(), admin, n.id, b.asked(n), "wrong"); broker.AsError(err).Code != "restored_enrolled" {
		t.Errorf("%v", err)
	}
	b.advance(0)
	anew.polls()
}
