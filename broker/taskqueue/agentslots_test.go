package taskqueue_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"testing"

	"github.com/hostler/hostler/broker/deb/debtest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
)

// A node that updated itself has the files of its package, the program of a signed release, and
// maybe the programs of other releases. A release without a signature by a key in force does not
// count.
func TestANodeThatUpdatedItselfIsComparedWithReleases(t *testing.T) {
	clock := storetest.NewClock()
	w := newWorld(t, storetest.Open(t, "sqlite", clock.Now), clock)
	key, thief := pkitest.NewSigner(t), pkitest.NewSigner(t)
	keys := release.Keys{key.ID: key.Key.Public()}
	w.queue = taskqueue.New(taskqueue.Config{DB: w.db, Signer: w, Rand: rand.Reader, ReleaseKeys: func() release.Keys { return keys }})
	n := w.active("one")
	storetest.Report(w.t, w.db, n.Peer.NodeID, store.NodeReport{AgentVersion: "1.1.0", TaskTypes: taskcatalog.IDs(), Digest: "d2"})

	publish := func(version, program string, by pki.Signer) {
		r := releasetest.Make(t, []byte(program), releasetest.Statement(version), by.Key)
		m, s, err := release.Verify(r.Manifest, r.Statement, r.Signatures, release.Keys{by.ID: by.Key.Public()}, r.Digest)
		w.ok(err)
		_, err = w.db.PublishRelease(ctx, operator, store.AgentRelease{
			Version: s.Version, Digest: r.Digest, Channel: "stable", Reference: "r.example/agent", Manifest: r.Manifest, Statement: r.Statement,
			Signatures: r.Signatures, KeyID: by.ID, StatementPart: m.Statement.Digest, LayerPart: m.Layer.Digest, LayerSize: m.Layer.Size,
		})
		w.ok(err)
	}
	unit := debtest.File("/usr/lib/systemd/system/hostler-agent.service", "[Service]")
	for _, version := range []string{"1.0.0", "1.0.1"} {
		w.publish(version, debtest.Join(debtest.Parts(t, unit, debtest.File(taskcatalog.AgentProgram(version), "deb "+version), debtest.Link("/usr/lib/hostler-agent/packaged", "versions/"+version))...))
	}
	if got := w.expected(n); len(got) != 0 {
		t.Errorf("nothing of its version is published, and it expects %+v", got)
	}
	publish("1.1.0", "release 1.1.0", key)
	publish("1.2.0", "release 1.2.0", key)
	publish("1.3.0", "of a thief", thief)
	got := w.expected(n)
	if len(got) != 1 {
		t.Fatalf("packages that differ in their version alone are %d: %+v", len(got), got)
	}
	program := func(version, content string) taskcatalog.BaselineFile {
		sum := sha256.Sum256([]byte(content))
		return taskcatalog.BaselineFile{Path: taskcatalog.AgentProgram(version), Digest: hex.EncodeToString(sum[:16]), Mode: 0o755}
	}
	if files := got[0].Files; len(files) != 2 || files[1] != program("1.1.0", "release 1.1.0") {
		t.Errorf("it must have %+v", files)
	}
	for _, f := range []taskcatalog.BaselineFile{
		program("1.2.0", "release 1.2.0"), program("1.0.0", "deb 1.0.0"), program("1.0.1", "deb 1.0.1"),
		{Path: "/usr/lib/hostler-agent/packaged", Digest: "link:versions/1.0.0"},
		{Path: "/usr/lib/hostler-agent/packaged", Digest: "link:versions/1.0.1"},
	} {
		if !slices.ContainsFunc(got[0].Slots, func(s taskcatalog.BaselineFile) bool {
			return s.Path == f.Path && s.Digest == f.Digest
		}) {
			t.Errorf("beside it there may not be %+v: %+v", f, got[0].Slots)
		}
	}
	if len(got[0].Slots) != 5 {
		t.Errorf("beside it there may be %+v", got[0].Slots)
	}
	keys = release.Keys{thief.ID: thief.Key.Public()}
	if got := w.expected(n); len(got) != 0 {
		t.Errorf("after the key was retired it expects %+v", got)
	}
}

func (w *world) expected(n node) []taskcatalog.AgentPackage {
	w.t.Helper()
	w.enqueue(n, "node.validate_clean", "")
	var p taskcatalog.ValidateCleanParams
	w.ok(json.Unmarshal(w.opened(w.fetch(n)[0]).Params, &p))
	return p.ExpectedAgent
}
