package machine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSwapAreasAreReadAsTheKernelWritesThem(t *testing.T) {
	const text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n" +
		"/dev/vda2                               partition\t1046524\t\t0\t\t-2\n" +
		"/var/a\\040swap\\134file                  file\t\t524284\t\t12\t\t10\n"
	got, err := parseSwapAreas(text)
	want := []SwapArea{{"/dev/vda2", -2}, {`/var/a swap\file`, 10}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "/dev/vda2 partition 1 0 -2\n", "Filename Type\n/dev/vda2\n", "Filename\n/a file 1 0 high\n"} {
		if got, err := parseSwapAreas(bad); err == nil {
			t.Errorf("%q was taken for %+v", bad, got)
		}
	}
}

func FuzzSwapAreas(f *testing.F) {
	f.Add("Filename Type Size Used Priority\n/dev/vda2 partition 1 0 -2\n")
	f.Add("Filename\n/a\\040b\\9 file 1 0 5\n")
	f.Fuzz(func(t *testing.T, text string) {
		areas, err := parseSwapAreas(text)
		if err == nil && len(areas) > strings.Count(text, "\n")+1 {
			t.Errorf("%d areas in %q", len(areas), text)
		}
	})
}

// swapFile writes a file with the signature of swap and a tenant's pages.
func swapFile(t *testing.T, name string, size int) []byte {
	t.Helper()
	raw := bytes.Repeat([]byte("secret.."), size/8)
	copy(raw[os.Getpagesize()-10:], "SWAPSPACE2")
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, raw, 0o600))
	return raw
}

func TestAWipedSwapAreaKeepsItsHeadAndNothingElse(t *testing.T) {
	m, dir := newMachine(t)
	name, page := filepath.Join(dir, "swapfile"), os.Getpagesize()
	was := swapFile(t, name, 3<<20+page)
	n, err := m.WipeSwap(context.Background(), SwapArea{Path: "/swapfile"})
	must(t, err)
	is, err := os.ReadFile(name)
	must(t, err)
	if n != int64(len(was)-page) || len(is) != len(was) || !bytes.Equal(is[:page], was[:page]) || len(bytes.Trim(is[page:], "\x00")) != 0 {
		t.Errorf("%d bytes written of %d; secrets left: %v", n, len(is), bytes.Contains(is[page:], []byte("secret")))
	}
}

func TestWhatIsNoSwapAreaIsNeverWiped(t *testing.T) {
	m, dir := newMachine(t)
	write(t, filepath.Join(dir, "disk"), strings.Repeat("data", 1<<14))
	if _, err := m.WipeSwap(context.Background(), SwapArea{Path: "/disk"}); !errors.Is(err, ErrNoSwap) {
		t.Errorf("got %v", err)
	}
	swapFile(t, filepath.Join(dir, "etc/real"), 1<<20)
	must(t, os.Symlink("etc/real", filepath.Join(dir, "link")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for _, name := range []string{"/link", "/fifo", "/etc", "/gone"} {
		if n, err := m.WipeSwap(context.Background(), SwapArea{Path: name}); err == nil || n != 0 {
			t.Errorf("%s: wrote %d, %v", name, n, err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "disk")); err != nil || strings.Contains(string(raw), "\x00") {
		t.Error("the disk was written to")
	}
	victimLives(t, dir)
}
