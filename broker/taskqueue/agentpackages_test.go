package taskqueue_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/deb/debtest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
)

func (w *world) publish(version string, content []byte) string {
	w.t.Helper()
	p, err := w.db.PutPackage(ctx, operator, store.Package{Name: "hostler-agent_" + version + "_amd64.deb", Version: version}, bytes.NewReader(content))
	w.ok(err)
	return p.Digest
}

// build is a package of the agent with the given program.
func build(t testing.TB, version, program string) []byte {
	return debtest.Join(debtest.Parts(t, debtest.File(taskcatalog.AgentProgram(version), program), debtest.Link("/usr/lib/hostler-agent/packaged", "versions/"+version))...)
}

func (w *world) expects(n node) (digests []string) {
	w.t.Helper()
	w.enqueue(n, "node.validate_clean", "")
	var p taskcatalog.ValidateCleanParams
	w.ok(json.Unmarshal(w.opened(w.fetch(n)[0]).Params, &p))
	for _, e := range p.ExpectedAgent {
		if !slices.ContainsFunc(e.Files, func(f taskcatalog.BaselineFile) bool {
			return f.Path == taskcatalog.AgentProgram("1.0") && len(f.Digest) == 32
		}) {
			w.t.Errorf("%s has %+v", e.Digest, e.Files)
		}
		digests = append(digests, e.Digest)
	}
	slices.Sort(digests)
	return digests
}

// The nodes here report version 1.0.
func TestAValidationCarriesThePublishedPackagesOfTheNodesVersion(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		if got := w.expects(n); len(got) > 0 {
			w.t.Errorf("nothing is published, and it expects %q", got)
		}
		w.publish("2.0", build(w.t, "2.0", "of another version"))
		w.publish("1.0.1", build(w.t, "1.0.1", "of a version that begins alike"))
		w.publish("1.0", build(w.t, "3.0", "of another version than its name"))
		w.publish("1.0", []byte("no package"))
		want := []string{w.publish("1.0", build(w.t, "1.0", "x")), w.publish("1.0-2", build(w.t, "1.0", "a revision of it"))}
		slices.Sort(want)
		for range 2 { // computed, and then cached
			if got := w.expects(n); !slices.Equal(got, want) {
				w.t.Errorf("it expects %q, want %q", got, want)
			}
		}
		for i := range 31 {
			w.publish("1.0", build(w.t, "1.0", fmt.Sprint(i)))
		}
		if got := w.expects(n); len(got) != 0 {
			w.t.Errorf("some of too many packages are expected: %d", len(got))
		}
	})
}

// A package whose bytes were changed in the database is refused.
func TestAPackageThatIsNotThatOfItsDigestIsRefused(t *testing.T) {
	clock, url := storetest.NewClock(), storetest.URL(t, "sqlite")
	w := newWorld(t, storetest.Reopen(t, url, clock.Now), clock)
	n := w.active("one")
	w.publish("1.0", build(t, "1.0", "mine"))
	raw, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:"))
	w.ok(err)
	defer func() { _ = raw.Close() }()
	_, err = raw.ExecContext(ctx, `UPDATE package_blocks SET data = $1`, build(t, "1.0", "evil"))
	w.ok(err)
	_, _, err = w.queue.Enqueue(ctx, operator, taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.validate_clean"})
	w.refused(err, "package_untrusted")
}
