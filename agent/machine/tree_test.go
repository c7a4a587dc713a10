package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func everything(*Entry) bool { return true }

// newMachine returns a root directory with a victim file that no sweep may touch.
func newMachine(t testing.TB) (*Machine, string) {
	t.Helper()
	dir := t.TempDir()
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	write(t, filepath.Join(dir, "etc/shadow"), "victim")
	return m, dir
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func victimLives(t testing.TB, dir string) {
	t.Helper()
	if raw, err := os.ReadFile(filepath.Join(dir, "etc/shadow")); err != nil || string(raw) != "victim" {
		t.Fatalf("the sweep reached outside: %q, %v", raw, err)
	}
}

func left(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestEmptyRemovesWhateverATenantLeaves(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, dir, tmp string){
		"plain files": func(t *testing.T, _, tmp string) { write(t, filepath.Join(tmp, "a/b/c"), "x") },
		"link to a file outside": func(t *testing.T, dir, tmp string) {
			must(t, os.Symlink(filepath.Join(dir, "etc/shadow"), filepath.Join(tmp, "l")))
		},
		"link to a directory outside": func(t *testing.T, dir, tmp string) {
			must(t, os.Symlink(filepath.Join(dir, "etc"), filepath.Join(tmp, "l")))
			must(t, os.Symlink("../etc", filepath.Join(tmp, "m")))
		},
		"hard link": func(t *testing.T, dir, tmp string) {
			must(t, os.Link(filepath.Join(dir, "etc/shadow"), filepath.Join(tmp, "h")))
		},
		"names with newlines, escapes and bad UTF-8": func(t *testing.T, _, tmp string) {
			for _, n := range []string{"a\nb", "\x1b[2J", "\xff\xfe", "<script>", "..x", " ", "-rf", "*"} {
				write(t, filepath.Join(tmp, n, n), "x")
			}
		},
		"fifo": func(t *testing.T, _, tmp string) { must(t, unix.Mkfifo(filepath.Join(tmp, "f"), 0o600)) },
		"socket": func(t *testing.T, _, tmp string) {
			l, err := net.Listen("unix", filepath.Join(tmp, "s"))
			must(t, err)
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			l.Close()
		},
		"no permissions": func(t *testing.T, _, tmp string) {
			write(t, filepath.Join(tmp, "d/f"), "x")
			must(t, os.Chmod(filepath.Join(tmp, "d/f"), 0))
			must(t, os.Chmod(filepath.Join(tmp, "d"), 0))
		},
		"ten thousand files in one directory": func(t *testing.T, _, tmp string) {
			for i := range 10_000 {
				write(t, filepath.Join(tmp, "many", fmt.Sprint(i)), "")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, dir := newMachine(t)
			tmp := filepath.Join(dir, "tmp")
			must(t, os.Mkdir(tmp, 0o777))
			plant(t, dir, tmp)
			tally, err := m.Empty(context.Background(), "/tmp", Tree{Remove: everything, Fault: func(p string, err error) { t.Errorf("%s: %v", p, err) }})
			must(t, err)
			if names := left(t, tmp); len(names) != 0 || tally.Files == 0 {
				t.Errorf("left %q, counted %+v", names, tally)
			}
			victimLives(t, dir)
		})
	}
}

func TestEmptyGoesDeeperThanThereAreDescriptors(t *testing.T) {
	m, dir := newMachine(t)
	const depth = 3000
	at, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(at, "d", 0o755))
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(at)
		at = next
	}
	fd, err := unix.Openat(at, "leaf", unix.O_CREAT|unix.O_WRONLY, 0o644)
	must(t, err)
	unix.Close(fd)
	unix.Close(at)
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: old.Max}))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	tally, err := m.RemoveAll(context.Background(), "/d", Tree{Remove: everything, Fault: func(_ string, err error) { t.Error(err) }})
	must(t, err)
	if tally.Dirs != depth || tally.Files != 1 {
		t.Errorf("counted %+v", tally)
	}
	if _, err := os.Lstat(filepath.Join(dir, "d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
}

func TestEmptyRefusesATopThatIsALink(t *testing.T) {
	m, dir := newMachine(t)
	must(t, os.Symlink("etc", filepath.Join(dir, "tmp")))
	if _, err := m.Empty(context.Background(), "/tmp", Tree{Remove: everything}); !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("went through the link: %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(dir, "home"), 0o755))
	must(t, os.Symlink("../etc", filepath.Join(dir, "home/alice")))
	if _, err := m.RemoveAll(context.Background(), "/home/alice/shadow", Tree{Remove: everything}); err == nil {
		t.Error("went through a link in the middle of the path")
	}
	victimLives(t, dir)
}

func TestRemoveAllTakesALinkAndNotWhatItNames(t *testing.T) {
	m, dir := newMachine(t)
	must(t, os.Symlink("etc", filepath.Join(dir, "alice")))
	tally, err := m.RemoveAll(context.Background(), "/alice", Tree{Remove: everything})
	must(t, err)
	if tally.Files != 1 {
		t.Errorf("counted %+v", tally)
	}
	victimLives(t, dir)
	if _, err := m.RemoveAll(context.Background(), "/alice", Tree{Remove: everything}); err != nil {
		t.Errorf("already gone is success, got %v", err)
	}
}

func TestSweepKeepsWhatItIsAskedToKeep(t *testing.T) {
	m, dir := newMachine(t)
	write(t, filepath.Join(dir, "tmp/keep/me"), "x")
	write(t, filepath.Join(dir, "tmp/keep/not-me"), "x")
	write(t, filepath.Join(dir, "tmp/never/entered"), "x")
	_, err := m.Empty(context.Background(), "/tmp", Tree{
		Remove: func(e *Entry) bool { return e.Name != "me" },
		Enter:  func(e *Entry) bool { return e.Path() != "/tmp/never" },
	})
	must(t, err)
	for name, want := range map[string]bool{"tmp/keep/me": true, "tmp/keep/not-me": false, "tmp/never/entered": true} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", name, err == nil, want)
		}
	}
}

// TestASwappedDirectoryNeverLeadsOutside races the sweep against a tenant who swaps directories for
// links to a place outside, and back.
func TestASwappedDirectoryNeverLeadsOutside(t *testing.T) {
	m, dir := newMachine(t)
	tmp := filepath.Join(dir, "tmp")
	for i := range 200 {
		write(t, filepath.Join(dir, "precious", fmt.Sprint(i)), "victim")
	}
	stop := make(chan struct{})
	var attacker sync.WaitGroup
	for a := range 3 {
		attacker.Go(func() {
			d, l := filepath.Join(tmp, fmt.Sprintf("d%d", a)), filepath.Join(tmp, fmt.Sprintf("l%d", a))
			for {
				select {
				case <-stop:
					return
				default:
				}
				// d and l are a directory and a link to the precious directory, and so are d/x and
				// d/l; both pairs trade places all the time.
				os.Mkdir(d, 0o777)
				os.Symlink(filepath.Join(dir, "precious"), l)
				os.Mkdir(filepath.Join(d, "x"), 0o777)
				os.Symlink(filepath.Join(dir, "precious"), filepath.Join(d, "l"))
				unix.Renameat2(unix.AT_FDCWD, filepath.Join(d, "x"), unix.AT_FDCWD, filepath.Join(d, "l"), unix.RENAME_EXCHANGE)
				unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, l, unix.RENAME_EXCHANGE)
			}
		})
	}
	must(t, os.MkdirAll(tmp, 0o777))
	for range 200 {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		m.Empty(ctx, "/tmp", Tree{Remove: everything})
		cancel()
	}
	close(stop)
	attacker.Wait()
	for i := range 200 { // the tenant may add files there, but the sweep must not remove any
		if _, err := os.Lstat(filepath.Join(dir, "precious", fmt.Sprint(i))); err != nil {
			t.Fatalf("a file outside is gone: %v", err)
		}
	}
	// Once the tenant is gone, the sweep leaves the directory empty.
	_, err := m.Empty(context.Background(), "/tmp", Tree{Remove: everything})
	must(t, err)
	if names := left(t, tmp); len(names) != 0 {
		t.Errorf("left %q", names)
	}
}

func TestSweepStopsWhenItsContextEnds(t *testing.T) {
	m, dir := newMachine(t)
	for i := range 2000 {
		write(t, filepath.Join(dir, "tmp", fmt.Sprint(i)), "")
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	_, err := m.Empty(ctx, "/tmp", Tree{Remove: func(*Entry) bool {
		if n++; n == 100 {
			cancel()
		}
		return true
	}})
	if !errors.Is(err, context.Canceled) || len(left(t, filepath.Join(dir, "tmp"))) == 0 {
		t.Errorf("did not stop: %v", err)
	}
}

func TestAFIFOIsNeverOpened(t *testing.T) {
	m, dir := newMachine(t)
	must(t, unix.Mkfifo(filepath.Join(dir, "etc/crontab"), 0o644))
	if _, err := m.ReadFile("/etc/crontab", 100); !errors.Is(err, ErrNotRegular) {
		t.Errorf("got %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestADeepDirectoryMovedOutsideLeadsNowhere builds a tree so deep that the way back is "..", and
// moves a directory out of the tree during the sweep.
func TestADeepDirectoryMovedOutsideLeadsNowhere(t *testing.T) {
	m, dir := newMachine(t)
	chain := func(n int) string { return strings.TrimSuffix(strings.Repeat("d/", n), "/") }
	must(t, os.MkdirAll(filepath.Join(dir, "tmp", chain(200)), 0o755))
	write(t, filepath.Join(dir, "tmp", chain(200), "leaf"), "")
	for i := range 50 {
		write(t, filepath.Join(dir, "precious", fmt.Sprint(i)), "victim")
	}
	moved, faults := false, 0
	sweep := Tree{
		Remove: func(e *Entry) bool {
			if e.Name == "leaf" && !moved {
				moved = true
				must(t, os.Rename(filepath.Join(dir, "tmp", chain(150)), filepath.Join(dir, "precious/moved")))
			}
			return true
		},
		Fault: func(_ string, err error) {
			if !errors.Is(err, errDeep) {
				t.Error(err)
			}
			faults++
		},
	}
	_, err := m.Empty(context.Background(), "/tmp", sweep)
	must(t, err)
	if !moved || faults == 0 {
		t.Errorf("moved %v, %d faults: the test proves nothing", moved, faults)
	}
	if n := len(left(t, filepath.Join(dir, "precious"))); n != 51 {
		t.Errorf("%d of 51 things outside are left", n)
	}
	_, err = m.Empty(context.Background(), "/tmp", Tree{Remove: everything})
	must(t, err)
	if names := left(t, filepath.Join(dir, "tmp")); len(names) != 0 {
		t.Errorf("left %q", names)
	}
}

func TestMoreDirectoriesThanAreNotedAtATimeAllGo(t *testing.T) {
	if testing.Short() {
		t.Skip("makes seventy thousand directories")
	}
	m, dir := newMachine(t)
	must(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
	at, err := os.Open(filepath.Join(dir, "tmp"))
	must(t, err)
	defer at.Close()
	const many = maxSubs + 2000
	for i := range many {
		must(t, unix.Mkdirat(int(at.Fd()), fmt.Sprint(i), 0o755))
	}
	tally, err := m.Empty(context.Background(), "/tmp", Tree{Remove: everything, Fault: func(p string, err error) { t.Errorf("%s: %v", p, err) }})
	must(t, err)
	if names := left(t, filepath.Join(dir, "tmp")); len(names) != 0 || tally.Dirs != many {
		t.Errorf("left %d, counted %+v", len(names), tally)
	}
}

func BenchmarkEmptyOf10000Files(b *testing.B) {
	m, dir := newMachine(b)
	for b.Loop() {
		b.StopTimer()
		for i := range 10_000 {
			write(b, filepath.Join(dir, "tmp", fmt.Sprint(i%100), fmt.Sprint(i)), "")
		}
		b.StartTimer()
		if _, err := m.Empty(context.Background(), "/tmp", Tree{Remove: everything}); err != nil {
			b.Fatal(err)
		}
	}
}

// A look during which a name moved is incomplete, and reports the move.
func TestALookTellsWhatMovedWhileItWasMade(t *testing.T) {
	m, dir := newMachine(t)
	write(t, filepath.Join(dir, "tmp/a"), "x")
	write(t, filepath.Join(dir, "tmp/b"), "x")
	look := func(meanwhile func(*Entry)) (gone, changed []string) {
		_, err := m.Empty(context.Background(), "/tmp", Tree{
			Look: meanwhile,
			Gone: func(p string) { gone = append(gone, p) }, Changed: func(p string) { changed = append(changed, p) },
		})
		must(t, err)
		return gone, changed
	}
	for still := false; !still; { // until the tick in which the files were created is over
		_, changed := look(nil)
		still = len(changed) == 0
	}
	gone, changed := look(func(e *Entry) {
		other := map[string]string{"a": "b", "b": "a"}[e.Name]
		_ = os.Rename(filepath.Join(dir, "tmp", other), filepath.Join(dir, "tmp/renamed"))
	})
	if len(gone) != 1 || len(changed) != 1 || changed[0] != "/tmp" {
		t.Errorf("gone are %q, changed are %q", gone, changed)
	}
}

func TestADirectoryThatStaysForWhatIsInItIsTold(t *testing.T) {
	m, dir := newMachine(t)
	write(t, filepath.Join(dir, "tmp/a/b/theirs"), "x")
	write(t, filepath.Join(dir, "tmp/a/ours"), "x")
	write(t, filepath.Join(dir, "tmp/empty/ours"), "x")
	var kept []string
	_, err := m.Empty(context.Background(), "/tmp", Tree{
		Remove: func(e *Entry) bool { return e.Name != "theirs" },
		Kept:   func(e *Entry) { kept = append(kept, e.Path()) },
	})
	must(t, err)
	if len(kept) != 1 || kept[0] != "/tmp/a/b" || len(left(t, filepath.Join(dir, "tmp"))) != 1 {
		t.Errorf("told of %q, left %q", kept, left(t, filepath.Join(dir, "tmp")))
	}
	victimLives(t, dir)
}
