package audit_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/audit"
	"github.com/hostler/hostler/broker/store"
)

func TestSignedHeadsAreInAFileOfTheirOwn(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		dir := t.TempDir()
		b.sealer.Keep = audit.HeadFiles{Dir: dir}.Append
		b.write(t, 1)
		b.seal(t)
		b.clock.Advance(31 * 24 * time.Hour) // August
		b.write(t, 1500)
		b.seal(t)
		b.clock.Advance(time.Minute)
		b.seal(t)
		var got []int64
		for _, month := range []string{"2026-07.ndjson", "2026-08.ndjson"} {
			f, err := os.Open(filepath.Join(dir, month))
			if err != nil {
				t.Fatal(err)
			}
			if s, err := f.Stat(); err != nil || s.Mode().Perm() != 0o600 {
				t.Errorf("%s is for %v, %v", month, s.Mode(), err)
			}
			for lines := bufio.NewScanner(f); lines.Scan(); {
				var line struct {
					Position int64           `json:"position"`
					Seal     string          `json:"seal"`
					Envelope json.RawMessage `json:"envelope"`
				}
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
					t.Fatal(err)
				}
				head, err := audit.VerifyHead(line.Envelope, b.authority.Bundle)
				if err != nil || head.Position != line.Position || head.Seal != line.Seal {
					t.Errorf("the line of position %d has %+v, %v", line.Position, head, err)
				}
				got = append(got, line.Position)
			}
			_ = f.Close()
		}
		if want := positions(t, b); len(got) != len(want) || len(got) != 3 {
			t.Errorf("the files have the heads at %v, the database at %v", got, want)
		}
	})
}

// A full disk does not stop sealing.
func TestSealingGoesOnWhereAHeadCannotBeKept(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		b.sealer.Keep = func(store.AuditHead) error { return errors.New("no space left on device") }
		b.write(t, 1)
		b.seal(t)
		if got := positions(t, b); len(got) != 1 {
			t.Errorf("heads at %v", got)
		}
		if b.logged.FilterMessage("cannot store an audit head outside the database").Len() != 1 {
			t.Error("nobody is told")
		}
	})
}
