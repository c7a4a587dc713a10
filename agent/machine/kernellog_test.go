package machine

import (
	"testing"
	"time"
)

func TestARecordOfTheKernelsLogIsItsTimeAndText(t *testing.T) {
	at, text, err := parseKernelRecord([]byte("3,1234,98765432,-;NVRM: Xid (PCI:0000:3b:00): 79, gone; really\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"))
	if err != nil || at != 98765432*time.Microsecond || text != "NVRM: Xid (PCI:0000:3b:00): 79, gone; really" {
		t.Errorf("%s %q %v", at, text, err)
	}
	for _, bad := range []string{"", "3,1;x", "no record", "3,1,x,-;text", "3,1,-5,-;text", "3,1,99999999999999999999,-;text"} {
		if at, text, err := parseKernelRecord([]byte(bad)); err == nil {
			t.Errorf("%q: %s %q", bad, at, text)
		}
	}
}

func FuzzKernelRecord(f *testing.F) {
	f.Add([]byte("6,339,5140900,-;NET: Registered PF_INET6 protocol family\n SUBSYSTEM=acpi\n"))
	f.Add([]byte("3,1234,98765432,c;"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if at, _, err := parseKernelRecord(raw); err == nil && at < 0 {
			t.Errorf("%q is of %s", raw, at)
		}
	})
}
