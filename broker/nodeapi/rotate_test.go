package nodeapi

import (
	"crypto"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// rotation is a node that carries out a node.rotate_identity.
type rotation struct {
	*testNode
	task     *taskcatalog.Task
	delivery wire.Delivery
	next     crypto.Signer // the new key
}

// rotating gives an active node the task, and lets the node fetch it.
func (b *testBroker) rotating() *rotation {
	b.t.Helper()
	n := b.member()
	n.post(n.path("/tasks/t-1/progress"), wire.ProgressRequest{}) // the node is heard
	must(b.db.Transition(b.t.Context(), admin, n.id, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(b.t)
	b.advance(time.Minute)
	return b.rotate(n)
}

func (b *testBroker) rotate(n *testNode) *rotation {
	b.t.Helper()
	b.enqueue(n, "node.rotate_identity", "{}")
	r := &rotation{testNode: n, next: must(pki.GenerateKey(pki.Ed25519))(b.t)}
	r.delivery, r.task = n.fetch("node.rotate_identity")
	return r
}

func (r *rotation) request() wire.RenewRequest {
	req := r.renewRequest()
	req.CSR, req.RotationTask = string(must(pki.NewCSR(r.next))(r.b.t)), r.task.TaskID
	return req
}

// ask sends the request with the certificate in force.
func (r *rotation) ask() *answer { return r.post(r.path("/renew"), r.request()) }

// successor is the node with its new key and certificate.
func (r *rotation) successor() *testNode {
	r.b.t.Helper()
	var reply wire.RenewReply
	r.ask().into(&reply)
	return r.as(reply)
}

func (r *rotation) as(reply wire.RenewReply) *testNode {
	n := *r.testNode
	n.key = r.next
	n.adopt(reply.Certificate)
	return &n
}

// heard makes a first request with the new certificate.
func (r *rotation) heard(n *testNode) {
	r.b.t.Helper()
	n.post(n.path("/tasks/"+r.task.TaskID+"/progress"), wire.ProgressRequest{
		Attempt: r.delivery.Attempt, TotalSteps: 1, StepStatus: "running", StepStartedAt: r.b.clock.Now(),
	}).into(new(wire.ProgressReply))
}

// says is the result of the task.
func (r *rotation) says(n *testNode) string {
	digest := must(pki.PublicKeyDigest(n.key.Public()))(r.b.t)
	return string(must(taskcatalog.Encode(taskcatalog.RotateIdentityResult{
		Serial: pki.Serial(n.cert.Leaf), KeySHA256: strings.TrimPrefix(digest, "sha256:"), NotAfter: n.cert.Leaf.NotAfter.UTC(),
	}))(r.b.t))
}

func (b *testBroker) node(n *testNode) broker.Node {
	b.t.Helper()
	return must(b.db.Node(b.t.Context(), n.id))(b.t)
}

func TestANodeTakesANewKeyAndTheOldOneIsDeniedAtItsFirstRequest(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		r := b.rotating()
		before := b.node(r.testNode)
		poll := r.waits(t.Context(), "")
		next := r.successor()
		if got := b.node(r.testNode); !got.IdentitySince.Equal(before.IdentitySince) {
			t.Errorf("the identity changed with the answer, and not with the first request")
		}
		r.post(r.path("/tasks/"+r.task.TaskID+"/progress"), wire.ProgressRequest{
			Attempt: r.delivery.Attempt, TotalSteps: 1, StepStatus: "running", StepStartedAt: clock.Now(),
		}).into(new(wire.ProgressReply)) // the old certificate is valid until then

		began := time.Now()
		r.heard(next)
		(<-poll).refused(b, 403, "certificate_denied")
		eventually(t, "the old certificate is denied", func() bool {
			return r.get(r.path("/tasks/wait?lanes=nothing")).status == http.StatusForbidden
		})
		if took := time.Since(began); took > denyListReread {
			t.Errorf("the old certificate was refused after %v", took)
		}
		for _, route := range routes {
			if route.admit != anyone && !strings.HasSuffix(route.path, "/renew") {
				r.connect(r.cert)
				r.try(route.method, route.path, r.id).refused(b, 403, "certificate_denied")
			}
		}
		after := b.node(r.testNode)
		if !after.IdentitySince.After(before.IdentitySince) || after.Epoch != before.Epoch || !after.CertNotAfter.Equal(next.cert.Leaf.NotAfter) {
			t.Errorf("on record since %v (before: %v), epoch %d, until %v", after.IdentitySince, before.IdentitySince, after.Epoch, after.CertNotAfter)
		}
		if life := next.cert.Leaf.NotAfter.Sub(clock.Now()); life != DefaultCertLife {
			t.Errorf("the new certificate lives %v", life)
		}
		var reply wire.ResultReply
		next.post(next.path("/tasks/"+r.task.TaskID+"/result"), next.succeed(r.delivery, r.task, r.says(next))).into(&reply)
		if reply.Status != "succeeded" {
			t.Errorf("%+v", reply)
		}
		key := must(db.CertKey(t.Context(), pki.Serial(next.cert.Leaf)))(t)
		must(pki.VerifyEvidence(must(db.Task(t.Context(), r.task.TaskID))(t).Evidence, key))(t)

		// Renewals continue with the new key, and so does the next rotation.
		b.advance(16 * time.Hour)
		var renewed wire.RenewReply
		next.post(next.path("/renew"), next.renewRequest()).into(&renewed)
		next.adopt(renewed.Certificate)
		b.advance(time.Second)
		again := b.rotate(next)
		third := again.successor()
		again.heard(third)
		if got := b.node(next); got.Status != broker.Active || b.conflicts(next) != 0 {
			t.Errorf("the node is %s (%s)", got.Status, got.StatusReason)
		}
	})
}

func TestALostAnswerToARotationIsGivenAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		r := b.rotating()
		var first, second wire.RenewReply
		r.ask().into(&first)
		b.advance(wire.LeaseTime + time.Second) // the lease is over, the task is not
		r.ask().into(&second)
		if first.Certificate != second.Certificate {
			t.Error("another certificate for the same key and task")
		}
		next := r.as(second)
		next.post(next.path("/tasks/"+r.task.TaskID+"/progress"), wire.ProgressRequest{StepStatus: "running"})
		eventually(t, "the old certificate is denied", func() bool { return b.deny.denied(pki.Serial(r.cert.Leaf)) })
		// With the new certificate the same request is a request for the present key.
		next.post(next.path("/renew"), r.request()).refused(b, 409, "rotation_over")
	})
}

// Each row tries to get a certificate for another key that the broker has not asked for. No row
// changes anything.
func TestAKeyIsTakenForARunningRotationAlone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		do     func(b *testBroker, r *rotation) *answer
		status int
		code   string
	}{
		{"without a task", func(b *testBroker, r *rotation) *answer {
			req := r.request()
			req.RotationTask = ""
			return r.post(r.path("/renew"), req)
		}, 403, "renew_key_changed"},
		{"with no task there is", func(b *testBroker, r *rotation) *answer {
			r.task.TaskID = "t-nosuch"
			return r.ask()
		}, 404, "task_not_found"},
		{"with a task id that is none", func(b *testBroker, r *rotation) *answer {
			r.task.TaskID = strings.Repeat("t", maxTaskID+1)
			return r.ask()
		}, 400, "malformed"},
		{"with another node's rotation", func(b *testBroker, r *rotation) *answer {
			other := b.rotating()
			r.task.TaskID = other.task.TaskID
			return r.ask()
		}, 404, "task_not_found"},
		{"with another task of the node", func(b *testBroker, r *rotation) *answer {
			k := b.enqueue(r.testNode, "node.heartbeat_check", "")
			r.fetch("node.heartbeat_check")
			r.task.TaskID = k.ID
			return r.ask()
		}, 409, "not_a_rotation"},
		{"before the task is delivered", func(b *testBroker, r *rotation) *answer {
			k := b.enqueue(r.testNode, "node.rotate_identity", "{}")
			r.task.TaskID = k.ID
			return r.ask()
		}, 409, "lease_lost"},
		{"after the lease", func(b *testBroker, r *rotation) *answer {
			b.advance(wire.LeaseTime)
			return r.ask()
		}, 409, "lease_lost"},
		{"while a person wants it stopped", func(b *testBroker, r *rotation) *answer {
			must(b.queue.Cancel(b.t.Context(), admin, r.task.TaskID, "no"))(b.t)
			return r.ask()
		}, 409, "lease_lost"},
		{"after the task has ended", func(b *testBroker, r *rotation) *answer {
			r.fails()
			return r.ask()
		}, 409, "rotation_over"},
		{"of an enrolment that is over", func(b *testBroker, r *rotation) *answer {
			_, token := b.reissue(r.id)
			again := b.machine()
			again.enroll(token)
			again.post(again.path("/tasks/t-1/progress"), wire.ProgressRequest{})
			r.testNode = again // with the task of its own earlier enrolment
			return r.ask()
		}, 403, "epoch_superseded"},
		{"for the key that it has", func(b *testBroker, r *rotation) *answer {
			r.next = r.key
			return r.ask()
		}, 409, "rotation_same_key"},
		{"for another node's key", func(b *testBroker, r *rotation) *answer {
			r.next = b.member().key
			return r.ask()
		}, 409, "rotation_key_known"},
		{"for a key that its sender does not have", func(b *testBroker, r *rotation) *answer {
			req := r.request()
			csr := []byte(req.CSR)
			csr[len(csr)/2] ^= 1
			req.CSR = string(csr)
			return r.post(r.path("/renew"), req)
		}, 0, ""},
		{"in the second of a renewal", func(b *testBroker, r *rotation) *answer {
			r.post(r.path("/renew"), r.renewRequest()).into(new(wire.RenewReply))
			return r.ask()
		}, 429, "rotation_too_soon"},
		{"with another node's certificate", func(b *testBroker, r *rotation) *answer {
			return b.member().post(r.path("/renew"), r.request())
		}, 403, "wrong_node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBroker(t)
			r := b.rotating()
			id, serial := r.id, pki.Serial(r.cert.Leaf)
			before := len(must(b.db.Certificates(t.Context(), id))(t))
			a := tt.do(b, r)
			if tt.code == "" && a.status/100 != 4 {
				t.Errorf("status %d, %s", a.status, a.body)
			} else if tt.code != "" {
				a.refused(b, tt.status, tt.code)
			}
			if rec := must(b.db.Certificate(t.Context(), serial))(t); tt.code != "epoch_superseded" && !rec.DeniedAt.IsZero() {
				t.Error("the certificate in force was denied")
			}
			key := must(pki.PublicKeyDigest(r.next.Public()))(t)
			for _, c := range must(b.db.Certificates(t.Context(), id))(t)[before:] {
				if c.PublicKeyDigest == key && r.next != r.key {
					t.Error("the new key was certified")
				}
			}
		})
	}
}

// fails ends the task as failed, as the node with its old key.
func (r *rotation) fails() {
	r.b.t.Helper()
	r.post(r.path("/tasks/"+r.task.TaskID+"/result"), wire.ResultRequest{
		Attempt: r.delivery.Attempt, Outcome: taskcatalog.OutcomeFailed, Code: "handler_failed",
	}).into(new(wire.ResultReply))
}

// A node whose task ended otherwise never uses the new certificate. Any other user of the
// certificate has stolen it, and the certificate opens nothing.
func TestARotationThatItsTaskDidNotEndIsVoid(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		r := b.rotating()
		next := r.successor()
		r.fails()
		eventually(t, "the new certificate is denied", func() bool { return b.deny.denied(pki.Serial(next.cert.Leaf)) })
		next.connect(next.cert)
		next.get(next.path("/tasks/wait?lanes=nothing")).shutOut(b, "certificate_denied")
		r.ask().refused(b, 409, "rotation_over")
		// The old certificate works as before.
		b.advance(time.Second)
		r.post(r.path("/renew"), r.renewRequest()).into(new(wire.RenewReply))
		if got := b.node(r.testNode); got.Status != broker.Active {
			t.Errorf("the node is %s (%s)", got.Status, got.StatusReason)
		}
	})
}

// Replicas that have not read the denial yet: no certificate of a finished rotation gets in by its
// first request.
func TestAVoidRotationGetsNoFirstContact(t *testing.T) {
	b := newBroker(t)
	r := b.rotating()
	next := r.successor()
	b.stop() // nobody reads the deny list any more
	r.fails()
	next.get(next.path("/tasks/wait?lanes=nothing")).refused(b, 403, "certificate_denied")
}

func TestWhoSaysThatItRotatedShowsTheNewKey(t *testing.T) {
	b := newBroker(t)
	r := b.rotating()
	next := r.successor()
	path := r.path("/tasks/" + r.task.TaskID + "/result")
	r.post(path, r.succeed(r.delivery, r.task, r.says(next))).refused(b, 409, "rotation_not_made")
	b.advance(time.Minute)
	r.heard(next)
	next.post(path, next.succeed(r.delivery, r.task, r.says(r.testNode))).refused(b, 409, "rotation_not_made")
	next.post(path, next.succeed(r.delivery, r.task, r.says(next))).into(new(wire.ResultReply))

	other := b.rotating() // has asked for nothing
	other.post(other.path("/tasks/"+other.task.TaskID+"/result"), other.succeed(other.delivery, other.task, other.says(other.testNode))).refused(b, 409, "rotation_not_made")
}

// Another broker learns of the denial two seconds later, but signatures by the old key are
// worthless at once.
func TestEvidenceByAnEarlierKeyIsRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		r := b.rotating()
		k := b.enqueue(r.testNode, "node.heartbeat_check", "")
		d, task := r.fetch("node.heartbeat_check")
		next := r.successor()
		b.stop() // nobody reads the deny list any more
		r.heard(next)
		if b.deny.denied(pki.Serial(r.cert.Leaf)) {
			t.Fatal("the deny list knows already: the test shows nothing")
		}
		r.post(r.path("/tasks/"+k.ID+"/result"), r.succeed(d, task, heartbeat)).refused(b, 409, "evidence_key_too_old")
		// Signed again by the new key, the result counts.
		next.post(next.path("/tasks/"+k.ID+"/result"), next.succeed(d, task, heartbeat)).into(new(wire.ResultReply))
	})
}

// A key that a rotation replaced is still answered. Once an operator has denied its certificate,
// there is no connection and no renewal to report.
func TestAReplacedCertificateThatAnOperatorDeniesIsShutOut(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		r := b.rotating()
		next := r.successor()
		r.heard(next)
		serial := pki.Serial(r.cert.Leaf)
		eventually(t, "the deny list knows", func() bool { return b.deny.denied(serial) })
		must0(t, db.Deny(t.Context(), admin, serial, store.DenyOperator+"stolen"))
		eventually(t, "the deny list knows the operator's denial", func() bool { return b.deny.refuses(serial) })
		r.post(r.path("/renew"), r.renewRequest()).refused(b, 403, "certificate_denied") // on the connection that it has
		r.connect(r.cert)
		r.post(r.path("/renew"), r.renewRequest()).shutOut(b, "certificate_denied")
		if b.conflicts(r.testNode) != 0 {
			t.Error("the renewal got as far as the conflict")
		}
		next.get(next.path("/tasks/wait?lanes=nothing")).refused(b, 422, "bad_lanes") // the node goes on
	})
}

func TestTheResultOfARotationIsBounded(t *testing.T) {
	typ := must(taskcatalog.Lookup("node.rotate_identity", 1))(t)
	for _, raw := range []string{
		`{"serial":"` + strings.Repeat("a", 65) + `","key_sha256":"` + strings.Repeat("0", 64) + `","not_after":"2026-07-01T12:00:00Z"}`,
		`{"serial":"a","key_sha256":"sha256:` + strings.Repeat("0", 64) + `","not_after":"2026-07-01T12:00:00Z"}`,
		`{"serial":"a","key_sha256":"` + strings.Repeat("0", 64) + `"}`,
	} {
		if _, err := typ.DecodeResult(json.RawMessage(raw)); err == nil {
			t.Errorf("took %s", raw)
		}
	}
}
