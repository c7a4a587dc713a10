package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A PostgreSQL is dumped and restored with its own tools, as docs/how-to/backup.md says, and marked
// as restored before a broker may open the database.
func TestAPostgreSQLThatWasDumpedAndRestoredIsHeld(t *testing.T) {
	url, other := storetest.PostgresURL(t), storetest.PostgresURL(t)
	p := newProcess(t, `{"require_hw_sync":false}`, func(_ *process, next http.Handler) http.Handler { return next }, func(p *process) {
		p.args = []string{"--db", url}
		if out, err := exec.Command("hostler-broker", "ca", "init", "--data-dir", p.data()).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	y := &yard{process: p}
	tool := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	stays := p.NewNode(t, api.NodeCreate{Hostname: "stays", Bootstrap: "command"}).Settle(t)
	dump := filepath.Join(p.dir, "hostler.dump")
	tool("pg_dump", "--format=custom", "--file="+dump, url)
	made := p.NewNode(t, api.NodeCreate{Hostname: "made", Bootstrap: "command"})

	refused := func(database, code string) {
		t.Helper()
		out, err := exec.Command("hostler-broker", "restore", "--hold", "--db", database, "--data-dir", p.data(), "--reason", "r").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "error: "+code+":") {
			t.Errorf("marked as restored: %v: %s", err, out)
		}
	}
	refused(url, "broker_running")
	p.kill()

	tool("pg_restore", "--no-owner", "--exit-on-error", "--single-transaction", "--dbname="+other, dump)
	if said := y.command("restore", "--hold", "--db", other, "--data-dir", p.data(), "--reason", "pg_restore of noon"); !strings.Contains(said, "the broker is on hold: 1 nodes must renew") {
		t.Errorf("it says: %s", said)
	}
	p.args = []string{"--db", other}
	p.boot()
	if a := p.Ask(t, p.Token, http.MethodGet, "/nodes", nil); a.Code() != "token_revoked" {
		t.Errorf("a token of before is answered %d %s", a.Status, a.Body)
	}
	if _, code, err := stays.Try(http.MethodGet, "/tasks/wait?lanes="); err != nil || code != "certificate_expired" {
		t.Errorf("a certificate of before polls and is answered %s, %v", code, err)
	}
	if code := made.TryRenew(t); code != "restored_unknown_node" {
		t.Errorf("a node that was made after the dump is answered %q", code)
	}
	if code := stays.TryRenew(t); code != "restored_undecided" {
		t.Errorf("a node of the dump is answered %q", code)
	}
	_, row, _ := strings.Cut(y.command("restore", "--list", "--db", other, "--data-dir", p.data()), stays.NodeID)
	row, _, _ = strings.Cut(row, "\n")
	key := regexp.MustCompile(`\b[0-9a-f]{16}\b`).FindString(row)
	y.command("restore", "--accept", stays.NodeID, "--key", key, "--db", other, "--data-dir", p.data(), "--reason", "I know it")
	if code := stays.TryRenew(t); code != "" {
		t.Errorf("accepted, it is answered %q", code)
	}
	y.command("restore", "--release", "--force", "--db", other, "--data-dir", p.data(), "--reason", "compared")
	stays.Offered(t)
	if code := made.TryRenew(t); code != "restored_unknown_node" {
		t.Errorf("after the release, a node that was made after the dump is answered %q", code)
	}
	if _, err := os.Stat(filepath.Join(p.data(), "hostler.db")); err == nil {
		t.Error("a database was made beside the PostgreSQL")
	}
}
