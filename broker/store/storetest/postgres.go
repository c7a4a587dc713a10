// Package storetest gives tests a store on each engine: SQLite in a temporary directory, and a real
// PostgreSQL with a separate database for every test. The package starts the PostgreSQL server
// itself, once per test process. Its main functions are Each and Open. On a machine without
// PostgreSQL a test fails and names the package to install; no test is skipped.
package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", to make databases

	"github.com/hostler/hostler/broker/store"
)

// cluster is a PostgreSQL server of this process.
type cluster struct {
	dir   string
	admin *sql.DB // of the database postgres
	err   error
}

// quick are the flags of a server that keeps nothing over a crash of the machine. Its databases are too
// short-lived to be vacuumed, and a worker that looks at each of hundreds costs more than the tests.
var quick = []string{"-F", "-c", "full_page_writes=off", "-c", "autovacuum=off"}

var (
	start   = sync.OnceFunc(func() { running.start(quick...) })
	running cluster

	startDurable = sync.OnceFunc(func() { durable.start() })
	durable      cluster

	number atomic.Int64
)

// PostgresURL returns the URL of a fresh, empty database.
func PostgresURL(t testing.TB) string {
	t.Helper()
	return createDatabase(t, "template0")
}

// DurablePostgresURL is PostgresURL on a separate server that waits for the disk, as a production
// server does: for benchmarks.
func DurablePostgresURL(t testing.TB) string {
	t.Helper()
	startDurable()
	return durable.create(t, "template0")
}

func createDatabase(t testing.TB, template string) string {
	t.Helper()
	start()
	return running.create(t, template)
}

func (c *cluster) create(t testing.TB, template string) string {
	t.Helper()
	if c.err != nil {
		t.Fatalf("cannot test on PostgreSQL: %v", c.err)
	}
	name := fmt.Sprintf("test_%d", number.Add(1))
	// A copy of the files takes a fifth of the time of a copy through the log, which is the default.
	if err := c.exec("CREATE DATABASE " + name + " TEMPLATE " + template + " STRATEGY FILE_COPY"); err != nil {
		t.Fatalf("cannot create database %s: %v", name, err)
	}
	// The files are in memory, and a package has hundreds of databases.
	t.Cleanup(func() {
		err := c.exec("CALL await_end('" + name + "')")
		if err == nil {
			err = c.exec("DROP DATABASE " + name + " WITH (FORCE)")
		}
		if err != nil {
			t.Errorf("cannot drop database %s: %v", name, err)
		}
	})
	return c.url(name)
}

// awaitEnd makes a procedure that waits until nobody is connected to a database. DROP DATABASE waits a tenth of a
// second if it finds a connection, and the server's end of one outlives the client's by a few milliseconds.
const awaitEnd = `CREATE PROCEDURE await_end(name TEXT) LANGUAGE plpgsql AS $$
BEGIN
	FOR look IN 1..50 LOOP
		PERFORM pg_stat_clear_snapshot();
		EXIT WHEN NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = name);
		PERFORM pg_sleep(0.002);
	END LOOP;
END
$$`

func (c *cluster) exec(statement string) error {
	_, err := c.admin.ExecContext(context.Background(), statement)
	return err
}

// migrated is the database that tests get copies of: migrating the schema takes longer than copying
// a database.
const migrated = "migrated"

func (c *cluster) makeTemplate() error {
	if err := c.exec("CREATE DATABASE " + migrated); err != nil {
		return err
	}
	db, err := store.Open(context.Background(), store.Options{URL: c.url(migrated)})
	if err != nil {
		return err
	}
	return db.Close()
}

func (c *cluster) url(database string) string {
	q := url.Values{"host": {c.dir}, "user": {"hostler"}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", Path: "/" + database, RawQuery: q.Encode()}).String()
}

// start creates a cluster in a temporary directory and starts a server that listens only on a
// socket there. Server and directory are removed with this process (reaper.go).
func (c *cluster) start(flags ...string) {
	bin, err := binaries()
	if err != nil {
		c.err = err
		return
	}
	who, err := unprivileged()
	if err != nil {
		c.err = err
		return
	}
	// Sockets have short paths, so not t.TempDir.
	if c.dir, err = os.MkdirTemp("", "hostler-pg-"); err != nil {
		c.err = err
		return
	}
	if who != nil {
		if err := os.Chown(c.dir, int(who.Uid), int(who.Gid)); err != nil {
			c.err = err
			return
		}
	}
	data := filepath.Join(c.dir, "data")
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, args[0]), args[1:]...)
		cmd.Dir, cmd.Env = c.dir, []string{"PATH=" + bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + c.dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
		return cmd
	}
	if out, err := run("initdb", "-D", data, "-U", "hostler", "-A", "trust", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		c.err = fmt.Errorf("initdb: %v\n%s", err, out)
		return
	}
	log, err := os.Create(filepath.Join(c.dir, "log"))
	if err != nil {
		c.err = err
		return
	}
	server := run(append([]string{"postgres", "-D", data, "-k", c.dir, "-h", "", "-c", "max_connections=200", "-c", "shared_buffers=64MB"},
		flags...)...)
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		c.err = err
		return
	}
	if err := reap(server.Process.Pid, c.dir); err != nil {
		c.err = err
		return
	}
	if c.err = c.wait(server); c.err == nil {
		c.err = c.exec(awaitEnd)
	}
	if c.err == nil {
		c.err = c.makeTemplate()
	}
}

func (c *cluster) wait(server *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	var err error
	if c.admin, err = sql.Open("pgx", c.url("postgres")); err != nil {
		return err
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		if err = c.admin.PingContext(context.Background()); err == nil {
			return nil
		}
		select {
		case <-ended:
			out, _ := os.ReadFile(filepath.Join(c.dir, "log"))
			return fmt.Errorf("the server ended: %s", out)
		case <-time.After(20 * time.Millisecond):
			if time.Now().After(deadline) {
				return fmt.Errorf("the server does not answer: %v", err)
			}
		}
	}
}

// binaries finds the server's programs.
func binaries() (string, error) {
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(out)))
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		candidates = append(candidates, filepath.Dir(path))
	}
	for _, dir := range candidates {
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("there is no PostgreSQL on this machine: install the package postgresql (Debian: apt-get install postgresql)")
}

// unprivileged returns the user of the server: initdb refuses root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("the tests run as root and there is neither a user postgres nor nobody to run the server as")
}

// Raw returns connections to the database at a PostgreSQL URL, beside those of a store: a test locks rows with
// them, or looks at what waits.
func Raw(t testing.TB, url string) *sql.DB {
	t.Helper()
	raw, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	return raw
}
