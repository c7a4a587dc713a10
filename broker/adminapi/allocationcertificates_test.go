package adminapi_test

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// certified has a node used by the allocation a-1 of a tenant, and removed with a certificate.
func certified(t *testing.T, b *servertest.Broker, of tenant) (n *servertest.Node, run string, issued api.CleanCertificate) {
	t.Helper()
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "secret-host"})
	n = b.EnrollMachine(t, boot.Token, "secret-host", "", servertest.H100s(1)).Settle(t)
	servertest.Must[json.RawMessage](t, b, http.MethodPost, "/nodes/secret-host/tasks", api.TaskCreate{Type: "allocation.provision_user", Params: json.RawMessage(
		`{"allocation_id":"a-1","username":"u","tenant":"` + of.project.ID + `","ssh_keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0000000000000000000000000000000000000000000 u"]}`,
	)})
	d, task := n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.ProvisionUserResult{UID: 2000, GID: 2000, Home: "/home/u", Created: true}, taskcatalog.Report{})
	run = servertest.Must[api.Decommission](t, b, http.MethodPost, "/nodes/secret-host/decommission", api.DecommissionStart{Mode: "full_decommission", ForceRelease: true, Reason: "secret reason"}).DecommissionID
	d, task = n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.RevokeUserResult{}, taskcatalog.Report{})
	var all []api.CleanCertificate
	if !b.LetPass(func() (bool, time.Duration) { // the agent is silent from now on
		all = servertest.Must[api.CleanCertificateList](t, b, http.MethodGet, "/certificates", nil).Items
		return len(all) > 0, time.Minute
	}) {
		t.Fatal("there is no certificate")
	}
	return n, run, all[0]
}

// endedBy gives an allocation of a project another id, and makes it one that ended with a certificate,
// as if it had had the node.
func (n tenant) endedBy(t *testing.T, b *servertest.Broker, made api.Allocation, id, certificateID string) string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.Dir, "hostler.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(`UPDATE tenant_allocations SET id = ?, status = 'released', certificate_ids = ? WHERE id = ?`, id, `["`+certificateID+`"]`, made.ID); err != nil {
		t.Fatal(err)
	}
	return n.allocations() + "/" + id + "/certificates"
}

// A tenant gets the receipt of the turnover that ended its allocation: a file that verifies without the
// broker, is the same at each request, and names nothing but the tenant's own.
func TestATenantGetsTheReceiptsOfItsAllocation(t *testing.T) {
	b := servertest.Start(t)
	stocked(t, b, "h100", 3)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	mine.quota(t, b, "h100", 2)
	theirs.quota(t, b, "h100", 1)
	used, unused, others := mine.allocated(t, b, b.Token, mine.asks("h100", 1)), mine.allocated(t, b, b.Token, mine.asks("h100", 1)), theirs.allocated(t, b, b.Token, theirs.asks("h100", 1))
	n, run, issued := certified(t, b, mine)
	path := mine.endedBy(t, b, used, "a-1", issued.CertificateID)
	tokens := mine.tokens(t, b)
	viewer := tokens["project_viewer of a project"]

	a := b.Ask(t, viewer, http.MethodGet, path, nil)
	var list api.AllocationCertificateList
	if err := json.Unmarshal(a.Body, &list); err != nil || len(list.Items) != 1 || list.Items[0].CertificateID != issued.CertificateID || list.Items[0].Digest != issued.Digest || !list.Items[0].IssuedAt.Equal(issued.IssuedAt) {
		t.Fatalf("%d %s, %v", a.Status, a.Body, err)
	}
	texts := []string{strings.ReplaceAll(string(a.Body), issued.CertificateID, "")} // the id begins with the run's
	var first api.AllocationReceipt
	for _, token := range []string{viewer, tokens["project_member"], tokens["tenant_admin"], b.Token} {
		b.Advance(time.Hour)
		a := b.Ask(t, token, http.MethodGet, path+"/"+issued.CertificateID, nil)
		var got api.AllocationReceipt
		if err := json.Unmarshal(a.Body, &got); err != nil || a.Status != http.StatusOK {
			t.Fatalf("%d %s, %v", a.Status, a.Body, err)
		}
		if first.File == "" {
			first = got
		} else if got != first {
			t.Errorf("a later request gets %s of %v, and the first got %s of %v", got.Digest, got.IssuedAt, first.Digest, first.IssuedAt)
		}
	}
	servertest.Must[api.Trust](t, b, http.MethodPost, "/trust/rotate", api.TrustRotate{Use: "statement", Reason: "yearly"})
	raw, err := json.Marshal(servertest.Must[api.Trust](t, b, http.MethodGet, "/trust", nil))
	if err != nil {
		t.Fatal(err)
	}
	trust, err := certificate.ReadTrust(raw)
	if err != nil {
		t.Fatal(err)
	}
	report, err := certificate.Verify([]byte(first.File), trust, b.Now())
	if err != nil || report.Receipt == nil {
		t.Fatalf("the receipt does not verify: %+v, %v", report, err)
	}
	if r := report.Receipt; report.Digest != first.Digest || r.AllocationID != "a-1" || r.Tenant != mine.project.ID || r.CertificateDigest != issued.Digest || r.IssuedAt.Truncate(time.Microsecond) != first.IssuedAt {
		t.Errorf("the receipt is %+v, and the answer %s of %v", r, first.Digest, first.IssuedAt)
	}
	said, err := json.Marshal(report.Receipt)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(texts, string(said)) {
		for _, hidden := range []string{n.NodeID, run, "secret", "dc1", theirs.project.ID, `"admin"`} {
			if reads(text, hidden) {
				t.Errorf("the tenant reads %q: %s", hidden, text)
			}
		}
	}
	if rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=certificate.receipt", nil).Items; len(rows) != 1 || rows[0].Actor != "acme-project-viewer" || !strings.Contains(string(rows[0].After), first.Digest) {
		t.Errorf("the audit log has %+v", rows)
	}

	// Whatever is another's is answered like what never was, and the receipt is nobody else's.
	theirsAt := theirs.endedBy(t, b, others, "a-2", issued.CertificateID)
	empty := mine.endedBy(t, b, unused, "a-3", "")
	for _, row := range []struct{ as, path, code string }{
		{viewer, theirsAt, "project_not_found"},
		{viewer, theirsAt + "/" + issued.CertificateID, "project_not_found"},
		{viewer, mine.allocations() + "/a-2/certificates", "allocation_not_found"},
		{viewer, mine.allocations() + "/a-2/certificates/" + issued.CertificateID, "allocation_not_found"},
		{viewer, empty + "/" + issued.CertificateID, "certificate_not_found"},
		{viewer, empty + "/c-none", "certificate_not_found"},
		{viewer, "/certificates/" + issued.CertificateID, "role_insufficient"},
		{b.Token, theirsAt + "/" + issued.CertificateID, "receipt_none"},
	} {
		b.Advance(time.Second)
		if a := b.Ask(t, row.as, http.MethodGet, row.path, nil); a.Code() != row.code || strings.Contains(string(a.Body), n.NodeID) || strings.Contains(string(a.Body), mine.project.ID) {
			t.Errorf("GET %s: %d %s, want %s", row.path, a.Status, a.Body, row.code)
		}
	}
	if a := b.Ask(t, viewer, http.MethodGet, empty, nil); string(a.Body) != `{"items":[],"next":""}`+"\n" {
		t.Errorf("without a certificate: %d %s", a.Status, a.Body)
	}
}
