package logins

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var alice = Login{TTY: "/dev/pts/13", PID: 4711, User: "alice", From: "hostler:ts-7k2m4q6s"}

func book(t *testing.T) Book {
	t.Helper()
	dir := t.TempDir()
	b := Book{Utmp: filepath.Join(dir, "utmp"), Wtmp: filepath.Join(dir, "wtmp"), Now: func() time.Time { return time.Unix(1_800_000_000, 123456000) }}
	ok(t, os.WriteFile(b.Utmp, nil, 0o644))
	ok(t, os.WriteFile(b.Wtmp, nil, 0o644))
	return b
}

func records(t *testing.T, name string) [][]byte {
	t.Helper()
	raw, err := os.ReadFile(name)
	ok(t, err)
	f, known := formHere()
	if !known || len(raw)%f.size != 0 {
		t.Fatalf("%d bytes are no records", len(raw))
	}
	var all [][]byte
	for len(raw) > 0 {
		all, raw = append(all, raw[:f.size]), raw[f.size:]
	}
	return all
}

func TestARecordStandsAsTheLibraryHasIt(t *testing.T) {
	at := time.Unix(1_800_000_000, 123456000)
	amd := forms["amd64"].encode(alice, at, false)
	arm := forms["arm64"].encode(alice, at, false)
	if len(amd) != 384 || len(arm) != 400 {
		t.Fatalf("records of %d and %d bytes", len(amd), len(arm))
	}
	for _, raw := range [][]byte{amd, arm} {
		if binary.NativeEndian.Uint16(raw) != 7 || pid(raw) != 4711 || text(raw[8:40]) != "pts/13" || text(raw[40:44]) != "s/13" ||
			text(raw[44:76]) != "alice" || text(raw[76:332]) != "hostler:ts-7k2m4q6s" {
			t.Errorf("%q", raw)
		}
	}
	order := binary.NativeEndian
	if order.Uint32(amd[340:]) != 1_800_000_000 || order.Uint32(amd[344:]) != 123456 || order.Uint64(arm[344:]) != 1_800_000_000 || order.Uint64(arm[352:]) != 123456 {
		t.Error("the time is another")
	}
	long := alice
	long.User, long.From, long.TTY = strings.Repeat("a", 99), strings.Repeat("b", 999), "/dev/"+strings.Repeat("c", 99)
	if raw := forms["amd64"].encode(long, at, false); text(raw[44:76]) != strings.Repeat("a", 32) || !bytes.Equal(raw[332:336], make([]byte, 4)) {
		t.Error("a field runs into the next")
	}
}

// As shown by the usual programs.
func TestWhoAndLastSeeALogin(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("these programs have records of another form")
	}
	b := book(t)
	self := alice
	self.PID = os.Getpid() // who omits processes that do not exist
	ok(t, b.Begin(self))
	if out, err := exec.CommandContext(t.Context(), "who", b.Utmp).CombinedOutput(); err != nil || !strings.Contains(string(out), "alice    pts/13") {
		t.Errorf("who says %q (%v)", out, err)
	}
	ok(t, b.End(self))
	if out, err := exec.CommandContext(t.Context(), "who", b.Utmp).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("after the end, who says %q (%v)", out, err)
	}
	if _, err := exec.LookPath("last"); err == nil {
		if out, err := exec.CommandContext(t.Context(), "last", "-f", b.Wtmp).CombinedOutput(); err != nil || !strings.Contains(string(out), "alice    pts/13") || strings.Contains(string(out), "still") {
			t.Errorf("last says %q (%v)", out, err)
		}
	}
}

func TestARecordIsThatOfItsTerminal(t *testing.T) {
	b := book(t)
	other := Login{TTY: "/dev/pts/1", PID: 5, User: "bob"}
	ok(t, b.Begin(other))
	ok(t, b.Begin(alice))
	next := alice
	next.User, next.PID = "carol", 4712
	ok(t, b.Begin(next)) // the terminal's number is used again
	ok(t, b.End(alice))  // and the end of the previous login comes late
	all := records(t, b.Utmp)
	if len(all) != 2 || pid(all[0]) != 5 || pid(all[1]) != 4712 || text(all[1][userAt:userAt+32]) != "carol" {
		t.Errorf("%q", all)
	}
	ok(t, b.End(next))
	all = records(t, b.Utmp)
	if len(all) != 2 || all[1][typeAt] != deadProcess || text(all[1][userAt:userAt+32]) != "" || text(all[0][userAt:userAt+32]) != "bob" {
		t.Errorf("%q", all)
	}
	if all := records(t, b.Wtmp); len(all) != 5 || all[3][typeAt] != deadProcess || text(all[3][lineAt:lineAt+32]) != "pts/13" {
		t.Errorf("%q", all)
	}
}

func TestWhatIsNoBookIsLeftAlone(t *testing.T) {
	b := book(t)
	ok(t, os.Remove(b.Utmp))
	ok(t, b.Begin(alice))
	if _, err := os.Lstat(b.Utmp); err == nil {
		t.Error("a file is made")
	}
	if len(records(t, b.Wtmp)) != 1 {
		t.Error("wtmp has nothing")
	}
	precious := filepath.Join(t.TempDir(), "precious")
	ok(t, os.WriteFile(precious, []byte("text"), 0o600))
	ok(t, os.Symlink(precious, b.Utmp))
	if err := b.Begin(alice); err == nil {
		t.Error("a link is followed")
	}
	ok(t, os.Remove(b.Utmp))
	ok(t, unix.Mkfifo(b.Utmp, 0o600))
	if err := b.Begin(alice); err == nil {
		t.Error("a pipe is written")
	}
	if raw, err := os.ReadFile(precious); err != nil || string(raw) != "text" {
		t.Errorf("it is %q now (%v)", raw, err)
	}
	// A partly written record is overwritten.
	f, err := os.OpenFile(b.Wtmp, os.O_APPEND|os.O_WRONLY, 0)
	ok(t, err)
	_, err = f.WriteString("torn")
	ok(t, err)
	ok(t, f.Close())
	ok(t, os.Remove(b.Utmp))
	ok(t, b.End(alice))
	if all := records(t, b.Wtmp); all[len(all)-1][typeAt] != deadProcess {
		t.Errorf("%q", all[len(all)-1])
	}
}
