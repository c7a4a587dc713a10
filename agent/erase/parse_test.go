package erase

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files in testdata were printed by the programs themselves.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestWhatTheProgramsPrintIsUnderstood(t *testing.T) {
	c, err := parseController(recorded(t, "id-ctrl.json"))
	if err != nil || c.model != "QEMU NVMe Ctrl" || !c.format || !c.namespaces || c.cryptoErase || c.sanitizeBlock || c.sanitizeCrypto || c.sanitizeWrite {
		t.Errorf("%+v, %v", c, err)
	}
	if ids, err := parseNamespaces(recorded(t, "list-ns.json")); err != nil || len(ids) == 0 || ids[0] != 1 {
		t.Errorf("%v, %v", ids, err)
	}
	if n, err := parseLBAFormat(recorded(t, "id-ns.json")); err != nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
	if s, err := parseSecurity(recorded(t, "hdparm.txt")); err != nil || s.serial != "SATA1" || s.model != "QEMU HARDDISK" || s.supported || s.enabled || s.frozen {
		t.Errorf("%+v, %v", s, err)
	}
}

// A disk with the security feature that does not report each state is refused.
func TestADiskThatDoesNotTellItsSecurityIsNotRead(t *testing.T) {
	const head, none = "\tModel Number:       M\n\tSerial Number:      S\n", "\tnot\tenabled\n\tnot\tlocked\n\tnot\tfrozen\n"
	for _, c := range []struct {
		text string
		read bool
	}{
		{head, true}, // no security feature
		{head + "Security: \n\tnot\tsupported\n", true},
		{head + "Security: \n\t\tsupported\n" + none, true},
		{head + "Security: \n\t\tsupported\n" + strings.Replace(none, "not\tlocked", "\tlocked", 1), true},
		{head + "Security: \n\t\tsupported\n", false},
		{head + "Security: \n\t\tsupported\n" + strings.Replace(none, "\tnot\tenabled\n", "", 1), false},
		{head + "Security: \n\t\tsupported\n" + strings.Replace(none, "not\tlocked", "\tlocked by the host", 1), false},
		{head + "Security: \n\t\tsupported\n" + strings.Replace(none, "not\tfrozen", "perhaps frozen", 1), false},
	} {
		if s, err := parseSecurity([]byte(c.text)); (err == nil) != c.read {
			t.Errorf("%q is %+v, %v", c.text, s, err)
		}
	}
}

func TestPlacesAreInEveryPartAndInside(t *testing.T) {
	for _, size := range []int64{plantedBlock, 3 * plantedBlock, 8<<20 + 512, 3840755982336} {
		all, err := chooseBlocks(size, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		last := int64(-1)
		for _, at := range all {
			if at <= last || at%plantedBlock != 0 || at+plantedBlock > size {
				t.Fatalf("of %d bytes: %d after %d", size, at, last)
			}
			last = at
		}
		if all[0] != 0 || last != (size/plantedBlock-1)*plantedBlock || size > 1<<30 && len(all) < 2*plantedParts {
			t.Errorf("of %d bytes: %d places from %d to %d", size, len(all), all[0], last)
		}
	}
	if _, err := chooseBlocks(plantedBlock-1, rand.Reader); err == nil {
		t.Error("a disk without a block has places")
	}
}

func FuzzParseController(f *testing.F) {
	f.Add(recorded(f, "id-ctrl.json"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if c, err := parseController(raw); err != nil && c != (controller{}) {
			t.Errorf("%+v with %v", c, err)
		}
	})
}

func FuzzParseNamespaces(f *testing.F) {
	f.Add(recorded(f, "list-ns.json"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		all, err := parseNamespaces(raw)
		for _, id := range all {
			if id < 1 || id >= 1<<32-1 || err != nil {
				t.Errorf("%d, %v", id, err)
			}
		}
	})
}

func FuzzParseLBAFormat(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		if n, err := parseLBAFormat(raw); n < 0 || n > 63 || err != nil && n != 0 {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func FuzzParseSanitize(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := parseSanitize(raw); err == nil && (s.percent < 0 || s.percent > 99 || s.status > sanitizeDoneDeallocated || s.action > 7) {
			t.Errorf("%+v", s)
		}
	})
}

func FuzzParseSecurity(f *testing.F) {
	f.Add(recorded(f, "hdparm.txt"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := parseSecurity(raw); err == nil && s.serial == "" && s.model == "" {
			t.Errorf("%+v", s)
		}
	})
}

func FuzzParseLoadOption(f *testing.F) {
	f.Add(loadOption(1, 2048, 8192))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, ok := parseLoadOption(raw); !ok && p != (partition{}) {
			t.Errorf("%+v", p)
		}
	})
}
