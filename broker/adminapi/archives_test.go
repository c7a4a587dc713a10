package adminapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

func TestWhatANodeCollectedIsListedAndReadOnRecord(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "hall-1"}).Settle(t)
	if l := servertest.Must[api.ArchiveList](t, b, http.MethodGet, "/nodes/h1/archives", nil); len(l.Items) != 0 {
		t.Errorf("there is %+v", l.Items)
	}
	task := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.diagnostics"})
	if a := b.Ask(t, b.Token, http.MethodGet, "/tasks/"+task.ID+"/archive", nil); a.Code() != "archive_not_found" || a.Status != http.StatusNotFound {
		t.Errorf("before its end: %d %s", a.Status, a.Body)
	}
	d, signed := n.Next(t)
	archive := []byte("\x1f\x8b not looked into")
	n.Finish(t, d, signed, taskcatalog.OutcomeSucceeded, taskcatalog.DiagnosticsResult{
		Digest: pki.Digest(archive), Bytes: len(archive), Parts: []taskcatalog.DiagnosticsPart{{Name: "journal.txt"}}, Archive: archive,
	}, taskcatalog.Report{})

	l := servertest.Must[api.ArchiveList](t, b, http.MethodGet, "/nodes/h1/archives", nil)
	if len(l.Items) != 1 || l.Items[0].TaskID != task.ID || l.Items[0].Digest != pki.Digest(archive) || l.Items[0].Archive != nil {
		t.Fatalf("%+v", l.Items)
	}
	got := servertest.Must[api.Archive](t, b, http.MethodGet, "/tasks/"+task.ID+"/archive", nil)
	if string(got.Archive) != string(archive) || got.EnqueuedBy != "admin" {
		t.Errorf("%+v", got)
	}
	log := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=archive.read", nil)
	if len(log.Items) != 1 || log.Items[0].Subject != "task/"+task.ID || log.Items[0].Reason != pki.Digest(archive) {
		t.Errorf("%+v", log.Items)
	}

	viewer := b.NewToken(t, api.TokenCreate{Name: "v", Role: string(broker.RoleViewer)})
	if a := b.Ask(t, viewer, http.MethodGet, "/tasks/"+task.ID+"/archive", nil); a.Code() != "role_insufficient" {
		t.Errorf("a viewer reads it: %d %s", a.Status, a.Body)
	}
	elsewhere := b.NewToken(t, api.TokenCreate{Name: "o", Role: string(broker.RoleOperator), Sites: []string{"hall-2"}})
	for _, path := range []string{"/tasks/" + task.ID + "/archive", "/nodes/" + n.NodeID + "/archives"} {
		if a := b.Ask(t, elsewhere, http.MethodGet, path, nil); a.Status != http.StatusNotFound || strings.Contains(string(a.Body), "hall-1") {
			t.Errorf("an operator of another site at %s: %d %s", path, a.Status, a.Body)
		}
	}
}
