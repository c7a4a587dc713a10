package machine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheKernelsHistoryIsItsOwnLinesOfThoseWanted(t *testing.T) {
	xid := func(text string) bool { return strings.Contains(text, "Xid") }
	l := log("6,1,1500000,-;NVRM: Xid 79\n SUBSYSTEM=pci\n", error(unix.EPIPE), "12,2,2000000,-;NVRM: Xid 1, a tenant says", error(unix.EINTR), "6,3,2500000,-;usb 1-1: new", "4,4,3000001,-;Xid 2")
	got, err := history(l.read, xid)
	want := []KernelLine{{1500 * time.Millisecond, "NVRM: Xid 79"}, {3000001 * time.Microsecond, "Xid 2"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAKernelsLogThatFailsKeepsWhatWasRead(t *testing.T) {
	for _, bad := range []any{errors.New("gone"), "no record"} {
		got, err := history(log("6,1,1,-;a", bad).read, func(string) bool { return true })
		if err == nil || len(got) != 1 {
			t.Errorf("%v: %v, %v", bad, got, err)
		}
	}
	endless := func(record []byte) (int, error) { return copy(record, "6,1,1,-;a"), nil }
	if got, err := history(endless, func(string) bool { return false }); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}
