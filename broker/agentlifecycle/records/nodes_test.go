package records

import (
	"bytes"
	"context"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
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

// world is a broker's records with one node.
type world struct {
	*testing.T
	db    *store.DB
	clock *storetest.Clock
	nodes *Nodes
}

func each(t *testing.T, f func(w *world)) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		w := &world{T: t, db: db, clock: clock, nodes: &Nodes{DB: db, Trust: trust(1), Starts: &turnoverrecords.Starts{DB: db}}}
		w.nodes.Queue = taskqueue.New(taskqueue.Config{DB: db, Signer: signer{pkitest.NewAt(t, db.Now())}, Rand: rand.Reader})
		_, err := db.CreateNode(t.Context(), ada, store.NewNode{ID: "n-1", Hostname: "g1", Bootstrap: "command", TokenHash: "h", TokenExpires: db.Now().Add(time.Hour)})
		w.ok(err)
		_, err = db.Enroll(t.Context(), store.EnrollInput{
			TokenHash: "h", PublicKeyDigest: "k", TrustVersion: 1,
			Report: store.NodeReport{AgentVersion: "1.3.0", TaskTypes: taskcatalog.IDs(), Digest: "d", Agent: &taskcatalog.AgentBuild{Commit: "c-1.3.0", SHA256: program("1.3.0")}},
			Issue: func(broker.Node, int64) (store.IssuedCert, error) {
				return store.IssuedCert{Serial: "s-1", PEM: "p", PublicKey: []byte("k"), NotBefore: db.Now(), NotAfter: db.Now().Add(24 * time.Hour)}, nil
			},
		})
		w.ok(err)
		w.ok(db.TouchNodes(t.Context(), map[string]time.Time{"n-1": db.Now()}))
		f(w)
	})
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) node() broker.Node {
	w.Helper()
	n, err := w.db.Node(w.Context(), "n-1")
	w.ok(err)
	return n
}

// program is the digest of the program of a version.
func program(version string) string { return release.Digest([]byte(version))[len("sha256:"):] }

func (w *world) publish(version, channel string) {
	w.Helper()
	s := &release.Statement{
		Schema: release.Schema, Version: version, Commit: "c-1", OS: release.OS, Arch: release.Arch, Binary: release.Binary{SHA256: program(version), Size: 1},
		StateSchema: release.State, Protocol: release.Protocol, BuiltAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	raw, err := s.Encode()
	w.ok(err)
	_, err = w.db.PublishRelease(w.Context(), ada, store.AgentRelease{
		Version: version, Digest: release.Digest([]byte(version + channel)), Channel: channel, Reference: "registry:5000/agent", Manifest: []byte(version), Statement: raw,
	})
	w.ok(err)
}

func (w *world) desired() (string, broker.AgentDrift) {
	w.Helper()
	f, err := w.nodes.Fleet(w.Context())
	w.ok(err)
	_, s := f.Of(w.node(), w.db)
	return s.Desired, s.Drift
}

func (w *world) order(o Order) (*agentlifecycle.Work, error) {
	w.Helper()
	if o.Mode == "" {
		o.Mode = broker.ByRebootstrap
	}
	o.Safety, o.RequestedBy = broker.OnlyIdle, "ada"
	s, err := w.nodes.Start(w.Context(), w.node(), o)
	if err != nil {
		return nil, err
	}
	u := s.State.(agentlifecycle.Work)
	if s.Kind != u.List.Kind() || s.Site != broker.NoSite || s.Subject != "g1" {
		w.Errorf("the start is %+v", s)
	}
	return &u, nil
}

func (w *world) want(channel broker.AgentChannel, pinned string) {
	w.Helper()
	_, err := w.db.WantAgent(w.Context(), ada, "n-1", channel, pinned, broker.ByRebootstrap, "")
	w.ok(err)
}

// The wanted release is the highest version of the channel, not the last published.
func TestWhatANodeShallHave(t *testing.T) {
	each(t, func(w *world) {
		if v, drift := w.desired(); v != "" || drift != broker.AgentInSync {
			w.Errorf("without a release %q, %s", v, drift)
		}
		w.publish("1.10.0", "stable")
		w.clock.Advance(time.Minute)
		w.publish("1.9.0", "stable")
		w.publish("1.11.0-rc.1", "candidate")
		w.publish("9.0.0", "elsewhere")
		for _, row := range []struct {
			channel broker.AgentChannel
			pinned  string
			want    string
		}{
			{broker.ChannelStable, "", "1.10.0"},
			{broker.ChannelCandidate, "", "1.11.0-rc.1"},
			{broker.ChannelPinned, "1.9.0", "1.9.0"},
			{broker.ChannelPinned, "7.7.7", "7.7.7"}, // no such version is published
		} {
			w.want(row.channel, row.pinned)
			if v, drift := w.desired(); v != row.want || drift != broker.AgentVersionDrift {
				w.Errorf("%s %s: %q, %s", row.channel, row.pinned, v, drift)
			}
		}
		w.publish("1.12.0", "stable")
		w.want(broker.ChannelCandidate, "")
		if v, _ := w.desired(); v != "1.12.0" {
			w.Errorf("what was accepted is above a candidate, and %q is wanted", v)
		}
		_, err := w.db.RevokeRelease(w.Context(), ada, "1.12.0", "no good")
		w.ok(err)
		w.want(broker.ChannelStable, "")
		if v, _ := w.desired(); v != "1.10.0" {
			w.Errorf("after a revocation %q is wanted", v)
		}
	})
}

func TestTheStartOfARun(t *testing.T) {
	each(t, func(w *world) {
		w.publish("1.4.0", "stable")
		w.publish("1.5.0", "candidate")
		w.publish("1.6.0", "stable")
		_, err := w.db.RevokeRelease(w.Context(), ada, "1.6.0", "no good")
		w.ok(err)
		update := agentlifecycle.Request{Scenario: broker.InPlaceUpgrade}
		u, err := w.order(Order{Request: update})
		w.ok(err)
		if u.List != agentlifecycle.Update || u.Target.Version != "1.4.0" || u.Target.SHA256 != program("1.4.0") || u.Target.Commit != "c-1" || u.From != "1.3.0" {
			w.Errorf("%+v to %+v", u, u.Target)
		}
		u, err = w.order(Order{Request: update, Target: "1.5.0"})
		w.ok(err)
		if u.Target.Version != "1.5.0" {
			w.Errorf("to %+v", u.Target)
		}
		for target, code := range map[string]string{"1.6.0": "release_revoked", "9.9.9": "agent_release_unknown"} {
			if _, err := w.order(Order{Request: update, Target: target}); broker.AsError(err).Code != code {
				w.Errorf("to %s: %v, want %s", target, err, code)
			}
		}
		_, err = w.db.SetReleaseFloor(w.Context(), ada, "1.5.0", "a hole")
		w.ok(err)
		if _, err := w.order(Order{Request: update}); broker.AsError(err).Code != "release_below_floor" {
			w.Errorf("below the floor: %v", err)
		}
		reimage := agentlifecycle.Request{Mode: broker.ByReimage, Scenario: broker.CertificateRepair, Reason: "r"}
		if _, err := w.order(Order{Request: reimage}); broker.AsError(err).Code != "node_status" {
			w.Errorf("a reimage of a node that is enrolling: %v", err)
		}
	})
}

func TestWhatNobodyIsGiven(t *testing.T) {
	each(t, func(w *world) {
		w.publish("1.4.0", "stable")
		w.publish("1.5.0", "stable")
		w.ok(w.nodes.CheckRelease(w.Context(), "1.4.0", false))
		_, err := w.db.SetReleaseFloor(w.Context(), ada, "1.5.0", "a hole")
		w.ok(err)
		_, err = w.db.RevokeRelease(w.Context(), ada, "1.5.0", "no good")
		w.ok(err)
		w.ok(w.nodes.CheckRelease(w.Context(), "1.4.0", true))
		for _, row := range []struct {
			version string
			back    bool
			code    string
		}{{"1.4.0", false, "release_below_floor"}, {"1.5.0", false, "release_revoked"}, {"1.5.0", true, "release_revoked"}, {"9.9.9", false, "agent_release_unknown"}} {
			if err := w.nodes.CheckRelease(w.Context(), row.version, row.back); broker.AsError(err).Code != row.code {
				w.Errorf("%s, back %v: %v", row.version, row.back, err)
			}
		}
	})
}

func TestWhatAPersonInstallsIsNamedWithItsDigest(t *testing.T) {
	each(t, func(w *world) {
		w.publish("1.4.0", "stable")
		p, err := w.db.PutPackage(w.Context(), ada, store.Package{Name: "hostler-agent_1.4.0_amd64.deb", Version: "1.4.0-1"}, bytes.NewReader([]byte("deb")))
		w.ok(err)
		at := func(digest string) string { return "https://broker/" + digest }
		u, err := w.order(Order{Request: agentlifecycle.Request{Mode: broker.ByManualInstall, Scenario: broker.InPlaceUpgrade}, PackageURL: at})
		w.ok(err)
		if u.Package == nil || u.Package.URL != at(p.Digest) || "sha256:"+u.Package.SHA256 != p.Digest || u.Package.Filename != p.Name {
			w.Errorf("it is %+v", u.Package)
		}
	})
}

func TestWhatANodeIsFitFor(t *testing.T) {
	each(t, func(w *world) {
		unfit, err := w.nodes.Unfit(w.Context(), "n-1")
		w.ok(err)
		if !slices.ContainsFunc(unfit, func(r broker.Reason) bool { return r.Code == "node_status" }) {
			w.Errorf("a node that is not active is fit but for %+v", unfit)
		}
	})
	h := broker.Handout{Node: broker.Node{Status: broker.Active}, Certificate: &broker.LastCertificate{MeetsPolicy: true}}
	if unfit, all := Unfit(h), h.Reasons("", ""); len(unfit) != 0 || len(all) != 1 || all[0].Code != "certificate_expired" {
		t.Errorf("a node whose certificate has run out is unfit because of %+v, and not handed out because of %+v", unfit, all)
	}
}
