package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// A tenant may ask for the receipt long after the turnover. The receipt verifies with the published
// keys, which include the statement key of that time, and names nothing that belongs to the
// operator.
func TestAReceiptOfAnOlderCertificateVerifies(t *testing.T) {
	b := servertest.Start(t)
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"})
	n := b.EnrollMachine(t, boot.Token, "h1", "", servertest.H100s(1)).Settle(t)
	servertest.Must[json.RawMessage](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "allocation.provision_user", Params: json.RawMessage(
		`{"allocation_id":"a-1","username":"u","tenant":"acme","ssh_keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0000000000000000000000000000000000000000000 u"]}`,
	)})
	d, task := n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.ProvisionUserResult{UID: 2000, GID: 2000, Home: "/home/u", Created: true}, taskcatalog.Report{})
	run := servertest.Must[api.Decommission](t, b, http.MethodPost, "/nodes/h1/decommission", api.DecommissionStart{Mode: "full_decommission", ForceRelease: true, Reason: "sold"})
	d, task = n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.RevokeUserResult{}, taskcatalog.Report{})
	var issued []api.CleanCertificate
	if !b.LetPass(func() (bool, time.Duration) { // the agent is silent from now on
		issued = servertest.Must[api.CleanCertificateList](t, b, http.MethodGet, "/certificates", nil).Items
		return len(issued) > 0, time.Minute
	}) {
		t.Fatalf("there is no certificate: %+v", servertest.Must[api.DecommissionDetail](t, b, http.MethodGet, "/decommissions/"+run.DecommissionID, nil))
	}

	b.Advance(24 * time.Hour)
	servertest.Must[api.Trust](t, b, http.MethodPost, "/trust/rotate", api.TrustRotate{Use: "statement", Reason: "yearly"})
	receipt := servertest.Must[api.CleanCertificate](t, b, http.MethodPost, "/certificates/"+issued[0].CertificateID+"/receipt", nil)
	raw, err := json.Marshal(servertest.Must[api.Trust](t, b, http.MethodGet, "/trust", nil))
	if err != nil {
		t.Fatal(err)
	}
	trust, err := certificate.ReadTrust(raw)
	if err != nil {
		t.Fatal(err)
	}
	report, err := certificate.Verify([]byte(receipt.File), trust, b.Now())
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Receipt; r == nil || r.AllocationID != "a-1" || r.CertificateDigest != issued[0].Digest || !r.IssuedAt.After(r.CertifiedAt) {
		t.Errorf("the receipt is %+v", r)
	}
	said, err := json.Marshal(report.Receipt)
	if err != nil {
		t.Fatal(err)
	}
	for _, internal := range []string{run.DecommissionID, n.NodeID, "h1"} {
		if strings.Contains(string(said), internal) {
			t.Errorf("the receipt names %s", internal)
		}
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=certificate.receipt", nil)
	if len(rows.Items) != 1 || !strings.Contains(string(rows.Items[0].After), receipt.Digest) || !strings.Contains(string(rows.Items[0].After), issued[0].Digest) {
		t.Errorf("the audit log has %+v", rows.Items)
	}
}
