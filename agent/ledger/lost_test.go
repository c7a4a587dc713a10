package ledger

import (
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

func TestWhatMayHaveRunWhileALedgerWasLost(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	l := open(t, dir)
	issued := func(d time.Duration) *taskcatalog.Task { return &taskcatalog.Task{TaskID: "t-1", IssuedAt: at.Add(d)} }
	if may, err := l.MayHaveRun(issued(-time.Hour), 2); may || err != nil {
		t.Errorf("nothing was lost: %v %v", may, err)
	}
	do(t, l.Close(), RecordLoss(dir, at))
	l = open(t, dir)
	for _, c := range []struct {
		issued  time.Duration
		attempt int
		may     bool
	}{
		{-time.Second, 1, true}, // whatever the delivery's attempt, which is not signed
		{-time.Second, 2, true},
		{time.Second, 1, false},
		{time.Second, 2, true}, // the broker's clock is ahead
		{taskcatalog.ClockSkew, 2, false},
	} {
		if may, err := l.MayHaveRun(issued(c.issued), c.attempt); may != c.may || err != nil {
			t.Errorf("issued %v after it, attempt %d: %v %v", c.issued, c.attempt, may, err)
		}
	}
}
