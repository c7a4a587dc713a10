package wire

import (
	"crypto/rand"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAnInstanceIsNeverTheSame(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id, err := NewInstance(rand.Reader)
		if err != nil || !ValidInstance(id) || seen[id] {
			t.Fatalf("%q, %v", id, err)
		}
		seen[id] = true
	}
	if _, err := NewInstance(iotest.ErrReader(errors.New("no chance left"))); err == nil {
		t.Error("made without chance")
	}
	if _, err := NewInstance(strings.NewReader("short")); err == nil {
		t.Error("made with too little chance")
	}
}

var instanceForm = regexp.MustCompile(`\A[0-9a-f]{32}\z`)

func FuzzInstance(f *testing.F) {
	for _, s := range []string{"", "0", strings.Repeat("0", 32), strings.Repeat("f", 33), strings.Repeat("F", 32), strings.Repeat("0", 31) + "\n", strings.Repeat("\u0660", 16), strings.Repeat("0", 31) + "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := ValidInstance(s), instanceForm.MatchString(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	})
}
