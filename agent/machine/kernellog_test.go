package machine

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestARecordOfTheKernelsLogIsItsText(t *testing.T) {
	text, own, err := parseKernelRecord([]byte("3,1234,98765432,-;NVRM: Xid (PCI:0000:3b:00): 79, gone; really\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"))
	if err != nil || !own || text != "NVRM: Xid (PCI:0000:3b:00): 79, gone; really" {
		t.Errorf("%q %v", text, err)
	}
	for _, bad := range []string{"", "3,1;x", "no record", "x,1,2,-;text"} {
		if text, _, err := parseKernelRecord([]byte(bad)); err == nil {
			t.Errorf("%q: %s", bad, text)
		}
	}
}

// log returns a kernel log that answers each read with the next of answers: a record or an error.
func log(answers ...any) *KernelLog {
	return &KernelLog{fd: -1, read: func(record []byte) (int, error) {
		if len(answers) == 0 {
			return 0, unix.EAGAIN
		}
		next := answers[0]
		answers = answers[1:]
		if err, is := next.(error); is {
			return 0, err
		}
		return copy(record, next.(string)), nil
	}}
}

func TestTheKernelsLogIsReadToItsEnd(t *testing.T) {
	// 12 is the priority of a warning by a process: a tenant may write anything.
	l := log("6,1,1,-;one\n", "12,4,4,-;NVRM: a lie\n", unix.EINTR, "6,2,2,-;two\n", unix.EAGAIN, "6,3,3,-;three\n")
	if lines, err := l.Lines(); err != nil || !slices.Equal(lines, []string{"one", "two"}) {
		t.Errorf("%q, %v", lines, err)
	}
	if lines, err := l.Lines(); err != nil || !slices.Equal(lines, []string{"three"}) {
		t.Errorf("what came later: %q, %v", lines, err)
	}
}

// A tenant who fills the kernel's buffer hides its earlier records.
func TestALogThatLostLinesIsNoAnswer(t *testing.T) {
	for name, l := range map[string]*KernelLog{
		"before the first": log(unix.EPIPE, "6,9,9,-;later\n"), "in the middle": log("6,1,1,-;one\n", unix.EPIPE, "6,9,9,-;later\n"),
		"an end": log(""), "no record": log("x"), "an error": log(unix.EIO),
	} {
		if lines, err := l.Lines(); err == nil {
			t.Errorf("%s: %q", name, lines)
		}
	}
}

func TestTheKernelsLogBeginsWhereItWasOpened(t *testing.T) {
	m, err := Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	l, err := m.OpenKernelLog()
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	if lines, err := l.Lines(); err != nil || strings.Contains(strings.Join(lines, "\n"), "Linux version") {
		t.Errorf("%q, %v", lines, err)
	}
}

func FuzzKernelRecord(f *testing.F) {
	f.Add([]byte("6,339,5140900,-;NET: Registered PF_INET6 protocol family\n SUBSYSTEM=acpi\n"))
	f.Add([]byte("3,1234,98765432,c;"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if text, _, err := parseKernelRecord(raw); err == nil && strings.Contains(text, "\n") {
			t.Errorf("%q has lines: %q", raw, text)
		}
	})
}
