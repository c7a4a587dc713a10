package server_test

import (
	"bytes"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

// database opens a running broker's tables as their administrator does.
func database(t *testing.T, b *servertest.Broker) func(statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.Dir, "hostler.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return func(statement string, args ...any) {
		t.Helper()
		res, err := db.Exec(statement, args...)
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			t.Fatalf("%s changed nothing (%v)", statement, err)
		}
	}
}

const heartbeat = `{"agent_version":"1.0","boot_id":"b","uptime_seconds":1,"now":"2026-07-01T12:00:00Z","root_free_bytes":1,"drained":false}`

// The signature decides: rows beside the envelope change nothing, and the envelope cannot be
// changed.
func TestWhoeverChangesATaskInTheDatabaseChangesNothingOnTheNode(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	exec := database(t, b)
	task := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.drain", Params: json.RawMessage(`{"grace_seconds":5}`)})
	exec(`UPDATE tasks SET type = 'node.uninstall', params = '{"grace_seconds":300}', node_epoch = 1, not_after = not_after + 1000000000 WHERE id = $1`, task.ID)
	_, signed := n.Next(t)
	if signed.Type != "node.drain" || string(signed.Params) != `{"grace_seconds":5}` || !signed.NotAfter.Equal(task.NotAfter) {
		t.Errorf("the node was sent %s %s until %v", signed.Type, signed.Params, signed.NotAfter)
	}

	// The envelope itself, under a key of the administrator's own.
	forged, err := taskcatalog.Encode(*signed)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := pki.Sign(pki.PayloadTask, forged, pkitest.NewSigner(t))
	if err != nil {
		t.Fatal(err)
	}
	env, err := pki.ParseEnvelope(raw)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Trust.VerifyTask(env, b.Now()); taskcatalog.CodeOf(err, "") != taskcatalog.CodeUnknownKey {
		t.Errorf("a task by another key: %v", err)
	}
}

// Changed or exchanged evidence is not shown as the node's. If the certificate's row is exchanged
// too, the evidence is shown; but the sealed row of the task's end then names another digest.
func TestEvidenceExchangedInTheDatabaseDoesNotFitTheAuditLog(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	exec := database(t, b)
	task := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
	d, signed := n.Next(t)
	n.Finish(t, d, signed, taskcatalog.OutcomeSucceeded, json.RawMessage(heartbeat), taskcatalog.Report{})
	path := "/tasks/" + task.ID + "/evidence"
	genuine := servertest.Must[api.Evidence](t, b, http.MethodGet, path, nil)

	eve, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	lie := genuine.Evidence
	lie.Report = taskcatalog.Report{Verdict: taskcatalog.VerdictClean, Checks: []taskcatalog.Check{{Name: "users", Made: true}}}
	raw, err := pki.SignEvidence(lie, eve)
	if err != nil {
		t.Fatal(err)
	}
	exec(`UPDATE tasks SET evidence = $1 WHERE id = $2`, raw, task.ID)
	if a := b.Ask(t, b.Token, http.MethodGet, path, nil); a.Code() != "evidence_untrusted" {
		t.Fatalf("evidence by a key that was never certified: %d %s", a.Status, a.Body)
	}
	spki := pkix(t, eve.Public())
	exec(`UPDATE certificates SET public_key = $1 WHERE node_id = $2`, spki, n.NodeID)
	if a := b.Ask(t, b.Token, http.MethodGet, path, nil); a.Status != http.StatusOK {
		t.Fatalf("the page that admits this is out of date: %d %s", a.Status, a.Body)
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=task.end&limit=1000", nil)
	for _, row := range rows.Items {
		if row.Subject == "task/"+task.ID {
			after := string(row.After)
			if !strings.Contains(after, pki.Digest(genuine.Envelope)) || strings.Contains(after, pki.Digest(raw)) {
				t.Errorf("the sealed row says %s", after)
			}
			return
		}
	}
	t.Error("no row tells of the task's end")
}

// Write access to the database equals an operator: such a person can create a token, and take a
// certificate off the deny list. docs/explanation/security.md says so, and
// docs/how-to/incidents.md has the countermeasures.
func TestWhoMayWriteToTheDatabaseIsAnOperator(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	exec := database(t, b)
	const mine = "hso_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	exec(`INSERT INTO operator_tokens (name, hash, role, sites, created_at, expires_at) VALUES ('eve', $1, 'platform_admin', '[]', 0, 0)`, pki.HashToken(mine))
	var who api.Token
	if a := b.Ask(t, mine, http.MethodGet, "/whoami", nil); json.Unmarshal(a.Body, &who) != nil || who.Role != "platform_admin" {
		t.Errorf("the page that admits this is out of date: %d %s", a.Status, a.Body)
	}

	force := api.NodeAction{Force: true, Reason: "stolen"}
	servertest.Must[api.NodeActionResult](t, b, http.MethodPost, "/nodes/h1/actions/retire", force)
	servertest.Must[api.NodeActionResult](t, b, http.MethodPost, "/nodes/h1/actions/remove", force)
	poll := func() int {
		status, _, _ := n.Try(http.MethodGet, "/tasks/wait?lanes=nothing")
		return status
	}
	servertest.Eventually(t, "the removed node to be shut out", func() bool { return poll() != http.StatusUnprocessableEntity })
	exec(`UPDATE certificates SET denied_at = 0, deny_reason = ''`)
	exec(`UPDATE nodes SET status = 'active'`)
	servertest.Eventually(t, "the removed node to be let in again", func() bool { return poll() == http.StatusUnprocessableEntity })
}

// A reader of the database, or of its backup, finds nothing to log in, enrol or sign with.
func TestTheDatabaseHoldsNoSecret(t *testing.T) {
	b := servertest.Start(t)
	operator := b.NewToken(t, api.TokenCreate{Name: "ann", Role: "operator"})
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"})
	b.NewNode(t, api.NodeCreate{Hostname: "h2"}).Settle(t)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(b.Dir, "hostler.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := false
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found = found || bytes.Contains(raw, []byte(pki.HashToken(operator)))
		for name, secret := range map[string]string{"the admin's token": b.Token, "an operator's token": operator, "an enrolment token": boot.Token, "a private key": "PRIVATE KEY"} {
			if bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%s holds %s", filepath.Base(file), name)
			}
		}
	}
	if !found {
		t.Error("the token's hash is not there either: the test looks in the wrong place")
	}
}

func pkix(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
