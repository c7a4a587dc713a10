package server_test

import (
	"database/sql"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store/storetest"
)

// inNamespace runs the calling test again in a child with a mount namespace of its own, and returns
// false there. The child's mounts are not visible outside.
func inNamespace(t *testing.T) (parent bool) {
	t.Helper()
	const mark = "HOSTLER_TEST_NAMESPACE"
	if os.Getenv(mark) == t.Name() {
		return false
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this machine lets nobody make a mount namespace")
	}
	if err != nil {
		t.Fatalf("in the namespace: %v\n%s", err, out)
	}
	return true
}

// onADisk starts a broker whose data directory is on a small file system of its own.
func onADisk(t *testing.T) (b *servertest.Broker, disk string) {
	t.Helper()
	disk = t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	return servertest.Start(t, func(c *server.Config) { c.DataDir = filepath.Join(disk, "broker") }), disk
}

// writes checks that the broker reports whether its store can be written.
func writes(t *testing.T, b *servertest.Broker, can bool) {
	t.Helper()
	ready, up := "store not writable\n", "hostler_store_up 0"
	if can {
		ready, up = "ready\n", "hostler_store_up 1"
	}
	servertest.Eventually(t, "/readyz to say "+ready, func() bool {
		return string(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/readyz", nil).Body) == ready
	})
	metrics := string(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil).Body)
	if !strings.Contains(metrics, up) || !strings.Contains(metrics, `hostler_node_status{status="active"}`) {
		t.Errorf("the metrics lack %s, or what can be read", up)
	}
	if a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/healthz", nil); a.Status != http.StatusOK {
		t.Errorf("its process is said to be ill: %d %s", a.Status, a.Body)
	}
	alerts := servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil).Alerts
	if told := len(alerts) > 0 && alerts[0].Code == "store_not_written"; told == can {
		t.Errorf("the status has %+v", alerts)
	}
}

func TestAFullDiskIsNotReady(t *testing.T) {
	if inNamespace(t) {
		return
	}
	b, disk := onADisk(t)
	writes(t, b, true)
	tenant := filepath.Join(disk, "tenant.bin")
	f, err := os.Create(tenant)
	if err != nil {
		t.Fatal(err)
	}
	for piece := make([]byte, 4096); err == nil; {
		_, err = f.Write(piece)
	}
	if _ = f.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	writes(t, b, false)
	if err := os.Remove(tenant); err != nil {
		t.Fatal(err)
	}
	writes(t, b, true)
}

// Open files keep the kernel from making this file system read-only, so the same directory is
// mounted over itself, read-only. The broker still finds its files there: a connection to the
// database that is opened in this state reads it, as it does on a disk that became read-only.
func TestAReadOnlyDataDirectoryIsNotReady(t *testing.T) {
	if inNamespace(t) {
		return
	}
	b, _ := onADisk(t)
	writes(t, b, true)
	for _, flags := range []uintptr{syscall.MS_BIND, syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY} {
		if err := syscall.Mount(b.Dir, b.Dir, "", flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	writes(t, b, false)
	if err := syscall.Unmount(b.Dir, syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	writes(t, b, true)
}

// PostgreSQL takes no writes after a failover to a standby, or when an administrator says so.
func TestAReadOnlyDatabaseIsNotReady(t *testing.T) {
	url := storetest.PostgresURL(t)
	b := servertest.Start(t, func(c *server.Config) {
		c.Database = url
		dir, err := server.OpenDataDir(c.DataDir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(dir.MakeKeys(servertest.Clock(), ""), dir.Close()); err != nil {
			t.Fatal(err)
		}
	})
	writes(t, b, true)
	raw, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	for _, readOnly := range []string{"on", "off"} {
		for _, statement := range []string{
			`SET default_transaction_read_only = off`,
			`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = ` + readOnly + `', current_database()); END $$`,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
		} {
			raw.SetMaxOpenConns(1)
			if _, err := raw.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		writes(t, b, readOnly == "off")
	}
}
