package backup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

const killAt = "HOSTLER_TEST_KILL_AT"

// TestMain is a restore or a backup that ends at its nth step, where a test asks for that.
func TestMain(m *testing.M) {
	at, err := strconv.Atoi(os.Getenv(killAt))
	if err != nil {
		os.Exit(m.Run())
	}
	n := 0
	step = func(string) {
		if n++; n == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if os.Args[1] == "backup" {
		_, _, err = Write(context.Background(), WriteOptions{DataDir: os.Args[2], File: os.Args[3], Recipients: os.Args[4:], Now: noon})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _, err = Restore(context.Background(), RestoreOptions{
		File: os.Args[1], DataDir: os.Args[2], Identity: os.Args[3], Now: noon.Add(time.Hour), Actor: admin,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A restore that is killed at any step leaves a directory that no broker starts on, or a directory
// with a held database; and the next restore succeeds.
func TestARestoreThatIsKilledLeavesNothingThatCouldServe(t *testing.T) {
	p := newPlant(t)
	file := p.write(t)
	for n := 1; ; n++ {
		o := p.into(t)
		o.File = file
		c := exec.CommandContext(t.Context(), os.Args[0], file, o.DataDir, p.identity)
		c.Env = append(os.Environ(), killAt+"="+strconv.Itoa(n))
		out, err := c.CombinedOutput()
		if err == nil {
			if n < 10 {
				t.Fatalf("only %d steps", n)
			}
			break
		}
		if c.ProcessState.Exited() {
			t.Fatalf("step %d: %v: %s", n, err, out)
		}
		if Unfinished(o.DataDir) == nil {
			for _, name := range names(t, o.DataDir) {
				if name != LockName {
					t.Errorf("step %d: a broker may start on a directory with %s", n, name)
				}
			}
		}
		if _, err := os.Stat(filepath.Join(o.DataDir, "hostler.db")); err == nil {
			if last := must(opened(t, o.DataDir).LastRestore(t.Context()))(t); !last.Held() {
				t.Errorf("step %d: there is a database that is not held", n)
			}
		}
		if _, _, err := Write(t.Context(), WriteOptions{DataDir: o.DataDir, File: filepath.Join(t.TempDir(), "b"), Recipients: []string{p.recipient}, Now: noon}); err == nil || n > 1 && broker.AsError(err).Code != "restore_unfinished" {
			t.Errorf("step %d: what is half there can be backed up: %v", n, err)
		}
		if _, _, err := Restore(t.Context(), o); err != nil {
			t.Fatalf("step %d: the next restore: %v", n, err)
		}
		if last := must(opened(t, o.DataDir).LastRestore(t.Context()))(t); !last.Held() || Unfinished(o.DataDir) != nil {
			t.Errorf("step %d: the next restore left %+v", n, last)
		}
	}
}

// A copy is the database in plain text: the next backup removes it, however soon it runs, and does
// not remove the copy of a running backup.
func TestWhatABackupThatIsKilledLeavesIsRemovedByTheNext(t *testing.T) {
	p := newPlant(t)
	before := names(t, p.dir)
	beside := t.TempDir()
	for n := 1; n <= 2; n++ {
		c := exec.CommandContext(t.Context(), os.Args[0], "backup", p.dir, filepath.Join(beside, "b"), p.recipient)
		c.Env = append(os.Environ(), killAt+"="+strconv.Itoa(n))
		if out, err := c.CombinedOutput(); err == nil || c.ProcessState.Exited() {
			t.Fatalf("step %d: %v: %s", n, err, out)
		}
	}
	if left := names(t, p.dir); len(left) == len(before) {
		t.Fatal("a backup that is killed leaves nothing: this test tests nothing")
	}
	unfinished := names(t, beside)
	if len(unfinished) != 1 {
		t.Fatalf("beside FILE there is %v", unfinished)
	}
	other, done, err := newCopy(p.dir)
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(other, "hostler.db"), nil, 0o600))
	write := func(name string) {
		t.Helper()
		_, _, err := Write(t.Context(), WriteOptions{DataDir: p.dir, File: filepath.Join(beside, name), Recipients: []string{p.recipient}, Now: noon})
		ok(t, err)
	}
	write("one")
	if _, err := os.Stat(filepath.Join(other, "hostler.db")); err != nil {
		t.Errorf("the copy of a backup that is under way: %v", err)
	}
	done()
	if left := names(t, p.dir); !slices.Equal(left, before) {
		t.Errorf("left in the data directory: %v", left)
	}
	if left := names(t, beside); len(left) != 2 {
		t.Errorf("beside FILE there is %v: the unfinished one may be another machine's", left)
	}
	yesterday := time.Now().Add(-staleBackup - time.Minute)
	ok(t, os.Chtimes(filepath.Join(beside, unfinished[0]), yesterday, yesterday))
	write("two")
	if left := names(t, beside); !slices.Equal(left, []string{"one", "two"}) {
		t.Errorf("beside FILE there is %v", left)
	}
}
