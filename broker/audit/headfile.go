package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hostler/hostler/broker/store"
)

// HeadFiles stores signed heads in files of a directory, apart from the database and from the
// broker's log: one file a month, 2026-11.ndjson, one head a line.
type HeadFiles struct{ Dir string }

// headLine is a line of a file.
type headLine struct {
	Position int64           `json:"position"` // of the last row that the head covers
	Seal     string          `json:"seal"`
	At       time.Time       `json:"at"`
	Envelope json.RawMessage `json:"envelope"` // in-toto statement by the statement key
}

// Append adds a head, and returns once the head is on the disk.
func (f HeadFiles) Append(h store.AuditHead) error {
	line, err := json.Marshal(headLine{h.Position, h.Seal, h.At.UTC(), h.Envelope})
	if err != nil {
		return fmt.Errorf("cannot store audit head %d: %w", h.Position, err)
	}
	name := filepath.Join(f.Dir, h.At.UTC().Format("2006-01")+".ndjson")
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot store audit head %d: %w", h.Position, err)
	}
	_, err = file.Write(append(line, '\n'))
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("cannot store audit head %d in %s: %w", h.Position, name, err)
	}
	return nil
}
