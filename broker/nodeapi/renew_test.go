package nodeapi

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

func TestARenewalIsForTheKeyThatIsThere(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	b.advance(16 * time.Hour)
	var reply wire.RenewReply
	n.post(n.path("/renew"), n.renewRequest()).into(&reply)
	if reply.Late {
		t.Error("taken for a late one")
	}
	before := n.cert.Leaf
	n.adopt(reply.Certificate)
	if got := n.cert.Leaf.NotAfter; !got.Equal(b.clock.Now().Add(DefaultCertLife)) || pki.Serial(before) == pki.Serial(n.cert.Leaf) {
		t.Errorf("valid until %v", got)
	}
	n.get(n.path("/tasks/wait?lanes=nothing")).refused(b, 422, "bad_lanes") // the new certificate is valid
	rec := must(b.db.Node(t.Context(), n.id))(t)
	if !rec.CertNotAfter.Equal(n.cert.Leaf.NotAfter) {
		t.Errorf("on record until %v", rec.CertNotAfter)
	}

	thief := must(pki.GenerateKey(pki.Ed25519))(t)
	r := n.renewRequest()
	r.CSR = string(must(pki.NewCSR(thief))(t))
	n.post(n.path("/renew"), r).refused(b, 403, "renew_key_changed")
}

func TestARenewalThatClaimsAVersionThatCannotBeIsRefused(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	r := n.renewRequest()
	r.TrustVersion = -5
	n.post(n.path("/renew"), r).refused(b, 400, "malformed")
	if rec := must(b.db.Node(t.Context(), n.id))(t); rec.TrustVersion != 1 {
		t.Errorf("version %d is on record, want 1", rec.TrustVersion)
	}
}

// A strange size from a driver must not keep the node from renewing.
func TestASizeThatCannotBeIsUnknown(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	r := n.renewRequest()
	huge := uint64(1) << 63
	r.Facts = &taskcatalog.Facts{
		Disks: []taskcatalog.DiskFacts{{Name: "sda", SizeBytes: -1}, {Name: "sdb", SizeBytes: 1 << 40}},
		GPUs:  []taskcatalog.GPUFacts{{UUID: "GPU-1", MemoryBytes: &huge, ReservedBytes: &huge, Instances: []taskcatalog.GPUInstance{{UUID: "MIG-1", MemoryBytes: &huge}}}},
	}
	r.Agent = &taskcatalog.AgentBuild{Delivery: &taskcatalog.AgentDelivery{Outcome: taskcatalog.UpdateConfirmed, SwitchSeconds: -1}}
	n.post(n.path("/renew"), r).into(new(wire.RenewReply))
	facts, _, err := b.db.Facts(t.Context(), n.id)
	if err != nil || facts.Disks[0].SizeBytes != 0 || facts.Disks[1].SizeBytes != 1<<40 {
		t.Fatalf("disks on record: %+v, %v", facts, err)
	}
	if g := facts.GPUs[0]; g.MemoryBytes != nil || g.ReservedBytes != nil || g.Instances[0].MemoryBytes != nil {
		t.Errorf("the sizes on record are %v, %v and %v", g.MemoryBytes, g.ReservedBytes, g.Instances[0].MemoryBytes)
	}
}

func TestARenewalBringsWhatTheNodeCanDo(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	r := n.renewRequest()
	r.TaskTypes, r.Capabilities = []string{"node.drain@1"}, map[string]string{"weka": "4.3"}
	r.Facts = &taskcatalog.Facts{Keys: map[string]string{"gpu.vendor": "nvidia"}, GPUs: []taskcatalog.GPUFacts{{UUID: "GPU-1", Name: "H100\x1b[2J" + strings.Repeat("A", 1000)}}}
	digest := wire.ReportDigest(r.TaskTypes, r.Capabilities, r.Facts, r.Agent)
	n.post(n.path("/renew"), r).into(new(wire.RenewReply))
	rec := must(b.db.Node(t.Context(), n.id))(t)
	if len(rec.TaskTypes) != 1 || rec.Capabilities["weka"] != "4.3" || rec.ReportDigest != digest {
		t.Errorf("on record: %v %v %s", rec.TaskTypes, rec.Capabilities, rec.ReportDigest)
	}
	facts, _, err := b.db.Facts(t.Context(), n.id)
	if err != nil || facts.Keys["gpu.vendor"] != "nvidia" || facts.GPUs[0].UUID != "GPU-1" {
		t.Errorf("facts on record: %+v, %v", facts, err)
	}
	if name := facts.GPUs[0].Name; strings.ContainsRune(name, 0x1b) || len(name) > 200 {
		t.Errorf("what the node said was kept as it was: %q", name)
	}
}

func TestThreeDaysOffAndBackByItself(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		n := b.member()
		n.post(n.path("/renew"), n.renewRequest()).into(new(wire.RenewReply))
		b.advance(3 * 24 * time.Hour)
		n.get(n.path("/tasks/wait?lanes=")).refused(b, 403, "certificate_expired")
		n.connect(n.cert)
		var reply wire.RenewReply
		n.post(n.path("/renew"), n.renewRequest()).into(&reply)
		if !reply.Late {
			t.Error("not taken for a late one")
		}
		n.adopt(reply.Certificate)
		n.get(n.path("/tasks/wait?lanes=nothing")).refused(b, 422, "bad_lanes")
		rows := must(db.ListAudit(t.Context(), store.AuditFilter{Action: "node.late_renewal"}))(t)
		if len(rows) != 1 || rows[0].Actor != "node:"+n.id {
			t.Errorf("late renewals in the audit log: %+v", rows)
		}
	})
}

func TestALateRenewalHasItsLimits(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(b *testBroker, n *testNode) *answer
		code string
	}{
		{"at the end of the grace", func(b *testBroker, n *testNode) *answer {
			b.advance(DefaultCertLife + DefaultRenewGrace)
			return n.post(n.path("/renew"), n.renewRequest())
		}, ""},
		{"past the grace", func(b *testBroker, n *testNode) *answer {
			b.advance(DefaultCertLife + DefaultRenewGrace + time.Second)
			return n.post(n.path("/renew"), n.renewRequest())
		}, "renew_grace_over"},
		{"with another key", func(b *testBroker, n *testNode) *answer {
			b.advance(48 * time.Hour)
			r := n.renewRequest()
			r.CSR = string(must(pki.NewCSR(must(pki.GenerateKey(pki.Ed25519))(b.t)))(b.t))
			return n.post(n.path("/renew"), r)
		}, "renew_key_changed"},
		{"of an enrolment that is over", func(b *testBroker, n *testNode) *answer {
			b.advance(48 * time.Hour)
			_, token := b.reissue(n.id)
			b.machine().enroll(token) // and was not heard yet
			return n.post(n.path("/renew"), n.renewRequest())
		}, "epoch_superseded"},
		{"of another node", func(b *testBroker, n *testNode) *answer {
			other := b.member()
			b.advance(48 * time.Hour)
			return n.post(other.path("/renew"), n.renewRequest())
		}, "wrong_node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBroker(t)
			n := b.member()
			a := tt.do(b, n)
			if tt.code == "" {
				a.into(new(wire.RenewReply))
				return
			}
			a.refused(b, 403, tt.code)
		})
	}
	t.Run("denied", func(t *testing.T) {
		b := newBroker(t)
		n := b.member()
		must0(t, b.db.Deny(t.Context(), admin, pki.Serial(n.cert.Leaf), "stolen"))
		b.advance(48 * time.Hour)
		n.connect(n.cert)
		n.post(n.path("/renew"), n.renewRequest()).shutOut(b, "certificate_denied")
	})
}

// A node enrols at a broker whose clock is ahead, and renews at another broker. Evidence signed
// afterwards still belongs to the node's identity.
func TestARenewalIsDatedNoEarlierThanWhatItRenews(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	enrolled := n.cert.Leaf.NotBefore
	b.advance(-30 * time.Second)
	var reply wire.RenewReply
	n.post(n.path("/renew"), n.renewRequest()).into(&reply)
	n.adopt(reply.Certificate)
	if got := n.cert.Leaf.NotBefore; got.Before(enrolled) {
		t.Errorf("it is dated %v before the first", enrolled.Sub(got))
	}
	n.get(n.path("/tasks/wait?lanes=nothing")).refused(b, 422, "bad_lanes") // valid at once
}
