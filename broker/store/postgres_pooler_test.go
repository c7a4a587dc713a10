package store_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// pooled starts a PgBouncer in front of a test's database and returns its URL.
func pooled(t *testing.T, database, mode string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	at, err := url.Parse(database)
	ok(t, err)
	socket := at.Query().Get("host")
	info, err := os.Stat(socket)
	ok(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	dir, err := os.MkdirTemp("/tmp", "hostler-pool-") // sockets have short paths
	ok(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := filepath.Join(dir, "pgbouncer.ini")
	ok(t, os.WriteFile(config, fmt.Appendf(nil, "[databases]\n* = host=%s user=hostler\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = %s\nlisten_port = 6432\nauth_type = any\npool_mode = %s\nignore_startup_parameters = extra_float_digits\nlogfile = %s/log\npidfile = %s/pid\n", socket, dir, mode, dir, dir), 0o644))
	ok(t, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
	cmd := exec.Command(program, config)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	ok(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	through := url.Values{"host": {dir}, "port": {"6432"}, "user": {"hostler"}, "sslmode": {"disable"}}
	pool := (&url.URL{Scheme: "postgres", Path: at.Path, RawQuery: through.Encode()}).String()
	db, err := sql.Open("pgx", pool)
	ok(t, err)
	defer db.Close() //nolint:errcheck // it only asked
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(20 * time.Second); ; <-tick.C {
		if err := db.PingContext(ctx); err == nil {
			return pool
		} else if time.Now().After(late) {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("the pooler does not answer: %v\n%s", err, log)
		}
	}
}

func TestAPoolerInTransactionModeIsRefusedAtTheStart(t *testing.T) {
	database := storetest.URL(t, "postgres")
	_, err := store.Open(ctx, store.Options{URL: pooled(t, database, "transaction")})
	if broker.AsError(err).Code != "store_pooled" {
		t.Fatalf("opened through a pooler in transaction mode: %v", err)
	}
	raw, err := sql.Open("pgx", database)
	ok(t, err)
	defer raw.Close() //nolint:errcheck // it only asked
	var locks int
	ok(t, raw.QueryRow(`SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&locks))
	if locks != 0 {
		t.Errorf("%d locks are left behind the pooler", locks)
	}
	db, err := store.Open(ctx, store.Options{URL: pooled(t, database, "session")})
	if err != nil {
		t.Fatalf("not opened through a pooler in session mode: %v", err)
	}
	ok(t, db.Close())
}

func TestALeadThatNobodyAliveHoldsIsFound(t *testing.T) {
	url := storetest.URL(t, "postgres")
	db := storetest.Reopen(t, url, nil)
	if h := must(db.LeadHolder(ctx))(t); h.PID != 0 || h.Orphaned() {
		t.Errorf("before anybody leads: %+v", h)
	}
	raw, err := sql.Open("pgx", url)
	ok(t, err)
	defer raw.Close() //nolint:errcheck // it only held
	conn, err := raw.Conn(ctx)
	ok(t, err)
	var pid int64
	ok(t, conn.QueryRowContext(ctx, `SELECT pg_backend_pid() FROM (SELECT pg_advisory_lock($1)) AS lock`, int64(0x686f73746c6572)).Scan(&pid))
	h := must(db.LeadHolder(ctx))(t)
	if h.PID != pid || h.Orphaned() {
		t.Errorf("a holder that has just spoken: %+v, want process %d", h, pid)
	}
	if h.Silent = 61 * time.Second; !h.Orphaned() {
		t.Error("a holder that has been silent for a minute is taken for a leader")
	}
}

// A hint that another replica sends while no connection listens is lost: waiting callers get
// HintMissed.
func TestWhoeverWaitsLooksOnceItListensAgain(t *testing.T) {
	a, _, url := replicas(t)
	hints := a.Hints(t.Context())
	raw, err := sql.Open("pgx", url)
	ok(t, err)
	defer raw.Close() //nolint:errcheck // it only ended connections
	var ended int
	ok(t, raw.QueryRow(`SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'`).Scan(&ended))
	if ended == 0 {
		t.Fatal("nobody listened")
	}
	late := time.After(30 * time.Second)
	for {
		select {
		case h := <-hints:
			if h.Is(store.HintTask) && h.Is(store.HintDeny) && h.Is(store.HintRun) {
				return
			}
		case <-late:
			t.Fatal("nobody was told to look")
		}
	}
}
