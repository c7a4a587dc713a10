package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func task(id string) taskcatalog.Task {
	return taskcatalog.Task{TaskID: id, Type: "node.drain", Version: 1, Params: []byte(`{"grace_seconds":3}`), NotAfter: noon.Add(time.Hour)}
}

func wantCode(t *testing.T, err error, code taskcatalog.Code) {
	t.Helper()
	if taskcatalog.CodeOf(err, "") != code {
		t.Fatalf("got %v, want code %q", err, code)
	}
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestATaskGoesAcceptedStartedFinishedAndSurvivesReopening(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	do(t, l.Accept(task("t-1"), "sha256:a", 1, noon), l.Start("t-1", noon))
	do(t, l.Close())
	l = open(t, dir)
	e, known, err := l.Get("t-1")
	do(t, err)
	if !known || e.State != Started || !e.StartedAt.Equal(noon) || string(e.Task.Params) != `{"grace_seconds":3}` {
		t.Fatalf("after reopening: %+v", e)
	}
	result := wire.ResultRequest{Outcome: taskcatalog.OutcomeSucceeded, Result: []byte(`{"a":1}`)}
	do(t, l.Finish("t-1", result, true, noon))
	do(t, l.Close())
	l = open(t, dir)
	waiting, err := l.Unreported()
	do(t, err)
	if len(waiting) != 1 || string(waiting[0].Result.Result) != `{"a":1}` || !waiting[0].After {
		t.Fatalf("unreported after reopening: %+v", waiting)
	}
}

func TestATaskIDIsAcceptedOnce(t *testing.T) {
	for _, test := range []struct {
		name   string
		before func(*Ledger) error
		digest string
		code   taskcatalog.Code
	}{
		{"same envelope, never started: it may begin", nil, "sha256:a", ""},
		{"other envelope of the same id", nil, "sha256:b", taskcatalog.CodeReplayed},
		{"started", func(l *Ledger) error { return l.Start("t-1", noon) }, "sha256:a", taskcatalog.CodeReplayed},
		{"finished", func(l *Ledger) error { return l.Finish("t-1", wire.ResultRequest{}, false, noon) }, "sha256:a", taskcatalog.CodeReplayed},
		{"finished and reported", func(l *Ledger) error {
			return errors.Join(l.Finish("t-1", wire.ResultRequest{}, false, noon), l.Reported("t-1"))
		}, "sha256:a", taskcatalog.CodeReplayed},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := open(t, t.TempDir())
			do(t, l.Accept(task("t-1"), "sha256:a", 1, noon))
			if test.before != nil {
				do(t, test.before(l))
			}
			err := l.Accept(task("t-1"), test.digest, 2, noon)
			if taskcatalog.CodeOf(err, "") != test.code {
				t.Fatalf("accept again: %v, want code %q", err, test.code)
			}
		})
	}
}

func TestStepsInTheWrongOrderAreRefused(t *testing.T) {
	l := open(t, t.TempDir())
	wantCode(t, l.Start("t-1", noon), taskcatalog.CodeLedgerUnavailable)
	do(t, l.Accept(task("t-1"), "sha256:a", 1, noon), l.Start("t-1", noon))
	wantCode(t, l.Start("t-1", noon), taskcatalog.CodeReplayed)
	first := wire.ResultRequest{Outcome: taskcatalog.OutcomeSucceeded}
	do(t, l.Finish("t-1", first, false, noon))
	wantCode(t, l.Finish("t-1", wire.ResultRequest{Outcome: taskcatalog.OutcomeFailed}, false, noon), taskcatalog.CodeReplayed)
	if e, _, _ := l.Get("t-1"); e.Result.Outcome != taskcatalog.OutcomeSucceeded {
		t.Fatalf("the first result does not stand: %+v", e.Result)
	}
}

func TestARefusalIsRememberedAndChangesNothingThatIsKnown(t *testing.T) {
	l := open(t, t.TempDir())
	refused := wire.ResultRequest{Outcome: taskcatalog.OutcomeRefused, Code: taskcatalog.CodeNotAllowed}
	do(t, l.Refuse(task("t-1"), "sha256:a", refused, noon))
	wantCode(t, l.Accept(task("t-1"), "sha256:a", 2, noon), taskcatalog.CodeReplayed)
	do(t, l.Accept(task("t-2"), "sha256:b", 1, noon), l.Start("t-2", noon), l.Refuse(task("t-2"), "sha256:c", refused, noon))
	if e, _, _ := l.Get("t-2"); e.State != Started {
		t.Fatalf("a refusal overwrote a running task: %+v", e)
	}
}

func TestDropKeepsWhatMayStillBeNeeded(t *testing.T) {
	late := noon.Add(retention + 3*time.Hour)
	for _, test := range []struct {
		name  string
		do    func(*Ledger) error
		now   time.Time
		drops int
	}{
		{"reported and long over", func(l *Ledger) error {
			return errors.Join(l.Finish("t-1", wire.ResultRequest{}, false, noon), l.Reported("t-1"))
		}, late, 1},
		{"reported, over, and remembered", func(l *Ledger) error {
			return errors.Join(l.Finish("t-1", wire.ResultRequest{}, false, noon), l.Reported("t-1"))
		}, noon.Add(retention - time.Hour), 0},
		{"reported, long over, envelope still valid", func(l *Ledger) error {
			e := Entry{Task: task("t-1"), State: Finished, Reported: true, FinishedAt: noon}
			e.Task.NotAfter = late
			return l.update(func(tx *bolt.Tx) error { return save(tx, &e) })
		}, late.Add(taskcatalog.ClockSkew), 0},
		{"not reported", func(l *Ledger) error { return l.Finish("t-1", wire.ResultRequest{}, false, noon) }, late, 0},
		{"something left to do after the report", func(l *Ledger) error {
			return errors.Join(l.Finish("t-1", wire.ResultRequest{}, true, noon), l.Reported("t-1"))
		}, late, 0},
		{"delivered again after the report", func(l *Ledger) error {
			return errors.Join(l.Finish("t-1", wire.ResultRequest{}, false, noon), l.Reported("t-1"), l.Delivered("t-1", 2))
		}, late, 0},
		{"started", func(l *Ledger) error { return l.Start("t-1", noon) }, late, 0},
		{"accepted", func(*Ledger) error { return nil }, late, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := open(t, t.TempDir())
			do(t, l.Accept(task("t-1"), "sha256:a", 1, noon), test.do(l))
			if n, err := l.Drop(test.now); err != nil || n != test.drops {
				t.Fatalf("dropped %d, %v, want %d", n, err, test.drops)
			}
		})
	}
}

func TestAUIDIsNeverGivenTwice(t *testing.T) {
	dir := t.TempDir()
	given := map[uint32]bool{}
	for range 3 {
		l := open(t, dir)
		for range 5 {
			uid, err := l.Accounts().NextUID()
			do(t, err)
			if given[uid] || uid < host.FirstUID || uid > host.LastUID {
				t.Fatalf("uid %d was given before or is out of range", uid)
			}
			given[uid] = true
			do(t, l.Accounts().Put(host.Account{AllocationID: "a-1", UID: uid}), l.Accounts().Delete("a-1"))
		}
		do(t, l.Close())
	}
}

func TestTheLastUIDIsFollowedByARefusal(t *testing.T) {
	l := open(t, t.TempDir())
	do(t, l.update(func(tx *bolt.Tx) error { return put(tx.Bucket(marksBucket), uidMark, host.LastUID-1) }))
	if uid, err := l.Accounts().NextUID(); err != nil || uid != host.LastUID {
		t.Fatal(uid, err)
	}
	_, err := l.Accounts().NextUID()
	wantCode(t, err, CodeNoUIDLeft)
}

func TestAccountsAndMarksSurvive(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	want := host.Account{AllocationID: "a-1", Username: "alice", UID: 70000, CreatedAt: noon}
	do(t, l.Accounts().Put(want), l.SetDrained(true), l.Close())
	l = open(t, dir)
	got, ok, err := l.Accounts().ByAllocation("a-1")
	if err != nil || !ok || got != want || !l.Drained() {
		t.Fatal(got, ok, err, l.Drained())
	}
	do(t, l.SetDrained(false))
	if l.Drained() {
		t.Fatal("the mark stays")
	}
}

func TestTheSpaceIsAllocatedAtTheBeginning(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	var st syscall.Stat_t
	do(t, syscall.Stat(filepath.Join(dir, "ledger.db"), &st))
	if !l.Reserved || st.Blocks*512 < Space {
		t.Fatalf("reserved %v, %d bytes allocated, want %d", l.Reserved, st.Blocks*512, Space)
	}
	blocks := st.Blocks
	// Within the reserved space no new space is requested from the file system.
	big := wire.ResultRequest{Evidence: strings.Repeat("x", wire.MaxBody)}
	for i := range 5 {
		id := "t-" + string(rune('a'+i))
		do(t, l.Accept(task(id), "sha256:a", 1, noon), l.Start(id, noon), l.Finish(id, big, false, noon))
	}
	do(t, syscall.Stat(filepath.Join(dir, "ledger.db"), &st))
	if st.Blocks != blocks {
		t.Fatalf("the file grew from %d to %d blocks for five great results", blocks, st.Blocks)
	}
}

func TestWhatWasReportedTakesNoSpaceOfWhatIsToCome(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	big := wire.ResultRequest{Outcome: taskcatalog.OutcomeSucceeded, Message: "done", Result: []byte(`{"a":1}`), Evidence: strings.Repeat("x", wire.MaxBody)}
	for i := range 40 {
		id := fmt.Sprintf("t-%d", i)
		k := task(id)
		k.Params = []byte(`"` + strings.Repeat("y", wire.MaxBody/2) + `"`)
		do(t, l.Accept(k, "sha256:a", 1, noon), l.Start(id, noon), l.Finish(id, big, i%2 == 0, noon), l.Reported(id))
		if i%2 == 0 {
			do(t, l.AfterDone(id))
		}
	}
	var st syscall.Stat_t
	do(t, syscall.Stat(filepath.Join(dir, "ledger.db"), &st))
	if st.Size > Space {
		t.Fatalf("the file has %d bytes, %d are reserved", st.Size, Space)
	}
	do(t, l.Delivered("t-1", 2))
	wantCode(t, l.Accept(task("t-1"), "sha256:a", 2, noon), taskcatalog.CodeReplayed)
	waiting, err := l.Unreported()
	do(t, err)
	if len(waiting) != 1 || !waiting[0].ResultDropped() || waiting[0].Result.Outcome != taskcatalog.OutcomeSucceeded || waiting[0].Result.Message != "done" || len(waiting[0].Task.Params)+len(waiting[0].Result.Evidence) > 10 {
		t.Fatalf("delivered again: %d entries: %+v", len(waiting), waiting)
	}
}

func TestADiskThatTakesNoWritesIsLedgerUnavailable(t *testing.T) {
	l := open(t, t.TempDir())
	l.fail = func() error { return syscall.ENOSPC }
	wantCode(t, l.Accept(task("t-1"), "sha256:a", 1, noon), taskcatalog.CodeLedgerUnavailable)
	if _, known, _ := l.Get("t-1"); known {
		t.Fatal("a task that could not be recorded is known")
	}
}

func TestADamagedLedgerIsAnErrorAndNotEmpty(t *testing.T) {
	dir := t.TempDir()
	do(t, os.WriteFile(filepath.Join(dir, "ledger.db"), []byte(strings.Repeat("damaged", 10000)), 0o600))
	_, err := Open(dir)
	wantCode(t, err, taskcatalog.CodeLedgerUnavailable)
}

func TestASecondProcessIsToldWhoHasTheLedger(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	_, err := Open(dir)
	wantCode(t, err, taskcatalog.CodeLedgerUnavailable)
	if !strings.Contains(err.Error(), "another hostler-agent") {
		t.Fatal(err)
	}
}
