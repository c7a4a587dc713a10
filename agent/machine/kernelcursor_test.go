package machine

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheKernelsLogIsReadFromAPlaceOn(t *testing.T) {
	xid := func(text string) bool { return strings.Contains(text, "Xid") }
	for name, c := range map[string]struct {
		place   uint64
		records []any
		want    KernelSince
	}{
		"from the oldest":           {0, []any{"6,5,1,-;Xid 1", "6,6,1,-;usb", "12,7,1,-;Xid 2, a tenant says"}, KernelSince{[]string{"Xid 1"}, 8, 0}},
		"nothing twice":             {6, []any{"6,5,1,-;Xid 1", "6,6,1,-;Xid 2"}, KernelSince{[]string{"Xid 2"}, 7, 0}},
		"nothing new":               {7, []any{"6,5,1,-;Xid 1", "6,6,1,-;Xid 2"}, KernelSince{nil, 7, 0}},
		"overwritten before":        {3, []any{"6,5,1,-;Xid 1"}, KernelSince{[]string{"Xid 1"}, 6, 2}},
		"overwritten while reading": {5, []any{"6,5,1,-;Xid 1", error(unix.EPIPE), "6,9,1,-;Xid 2"}, KernelSince{[]string{"Xid 1", "Xid 2"}, 10, 3}},
		"an empty log":              {0, nil, KernelSince{nil, 0, 0}},
	} {
		got, err := kernelSince(log(c.records...).read, c.place, xid)
		if err != nil || !slices.Equal(got.Lines, c.want.Lines) || got.Next != c.want.Next || got.Lost != c.want.Lost {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	for _, bad := range []any{"no record", "6,-1,1,-;a", "6,x,1,-;a"} {
		if _, err := kernelSince(log(bad).read, 0, xid); err == nil {
			t.Errorf("%v was read", bad)
		}
	}
}
