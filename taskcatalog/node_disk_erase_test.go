package taskcatalog

import (
	"testing"
	"time"
)

// Disks that are erased one after the other take their times together.
func TestTheTimeOfAnEraseFollowsFromItsDisks(t *testing.T) {
	const TB, day = 1_000_000_000_000, 24 * time.Hour
	typ, err := Latest("node.disk_erase")
	if err != nil {
		t.Fatal(err)
	}
	disk := func(serial string, size int64) DiskName { return DiskName{Serial: serial, SizeBytes: size} }
	for name, c := range map[string]struct {
		disks []DiskName
		want  time.Duration
	}{
		"small":                        {[]DiskName{disk("a", 50_000_000)}, day + time.Second},
		"20 TB":                        {[]DiskName{disk("a", 20*TB)}, day + 400_000*time.Second},
		"many at once":                 {[]DiskName{disk("a", 20*TB), disk("b", 4*TB), disk("c", 20*TB)}, day + 400_000*time.Second},
		"namespaces of one controller": {[]DiskName{disk("a", 2*TB), disk(" a ", 3*TB), disk("b", 4*TB)}, day + 100_000*time.Second},
		"without serials":              {[]DiskName{disk("", 2*TB), disk("", 2*TB)}, day + 80_000*time.Second},
		"more than there is":           {[]DiskName{disk("a", 1<<62), disk("a", 1<<62), disk("a", 1<<62)}, typ.Deadline},
	} {
		if got := typ.Limit(&DiskEraseParams{Disks: c.disks}); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if drain, err := Latest("node.drain"); err != nil || drain.Limit(&DrainParams{}) != drain.Deadline {
		t.Errorf("another type has %s, %v", drain.Limit(&DrainParams{}), err)
	}
}
