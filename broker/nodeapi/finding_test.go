package nodeapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// A finding of ten megabytes is not read to its end. A finding that fits a body but exceeds the
// limit of a finding is not accepted. Neither ends the task.
func TestAFindingOfTenMegabytesIsRefused(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	k := b.enqueue(n, "node.heartbeat_check", "")
	d, task := n.fetch("node.heartbeat_check")
	path := n.path("/tasks/" + k.ID + "/result")
	for size, want := range map[int]struct {
		status int
		code   string
	}{10 << 20: {http.StatusRequestEntityTooLarge, "too_large"}, 200 << 10: {http.StatusConflict, "evidence_bounds"}} {
		r := n.succeed(d, task, heartbeat)
		if size > wire.MaxBody {
			r.Evidence = strings.Repeat("x", size)
		} else {
			ev := must(pki.VerifyEvidence([]byte(r.Evidence), n.key.Public()))(t)
			ev.Findings = []taskcatalog.Finding{{Check: "temporary_files", Subject: strings.Repeat("x", size)}}
			r.Evidence = string(must(pki.SignEvidence(*ev, n.key))(t))
		}
		n.post(path, r).refused(b, want.status, want.code)
		if got := must(b.db.Task(t.Context(), k.ID))(t); got.Status != broker.TaskDispatched || len(got.Evidence) != 0 {
			t.Errorf("%d bytes: the task is %s with %d bytes of evidence", size, got.Status, len(got.Evidence))
		}
	}
	n.post(path, n.succeed(d, task, heartbeat)).into(new(wire.ResultReply))
}
