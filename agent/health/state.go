package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/taskcatalog"
)

// state is what one look leaves for the next.
type state struct {
	BootID string                `json:"boot_id"`
	Place  uint64                `json:"place"`           // in the kernel's log of this boot
	Carry  []string              `json:"carry,omitempty"` // lines to be read again with those that follow
	Lost   time.Time             `json:"lost,omitzero"`   // since when lines of the kernel's log are lost
	Missed map[string]int        `json:"missed"`          // lost looks in a row, by vendor
	Since  map[string]time.Time  `json:"since"`           // of each reason
	GPUs   map[string]*gpuMemory `json:"gpus"`            // by vendor and PCI address
}

// gpuMemory is what is kept of a GPU.
type gpuMemory struct {
	UUID      string           `json:"uuid,omitempty"`
	Partition string           `json:"partition,omitempty"`
	Base      map[string]int64 `json:"base"` // at the boot or the last proven reset
	Last      map[string]int64 `json:"last"` // at the look before
	Best      map[string]int64 `json:"best"` // the highest, in this partition mode
	Had       map[string]bool  `json:"had"`  // fields that were measured, in this partition mode
	Runs      map[string]int   `json:"runs"` // looks in a row, by rule
	Lines     []line           `json:"lines,omitempty"`
	// Reasons are those of the look before, but for lines of the kernel's log.
	Reasons []taskcatalog.HealthReason `json:"reasons,omitempty"`
}

// line is a fault of the kernel's log.
type line struct {
	Broken bool      `json:"broken"`
	Number string    `json:"number,omitempty"`
	Text   string    `json:"text"`
	At     time.Time `json:"at"` // of the look that found it
}

const (
	maxState = 1 << 20
	maxLines = 16 // of a GPU; the worst of them are there, because a broken one pushes an unclear one out
	maxGPUs  = 64
)

func newState() *state {
	return &state{Missed: map[string]int{}, Since: map[string]time.Time{}, GPUs: map[string]*gpuMemory{}}
}

func newMemory() *gpuMemory {
	return &gpuMemory{
		Base: map[string]int64{}, Last: map[string]int64{}, Best: map[string]int64{}, Had: map[string]bool{}, Runs: map[string]int{},
	}
}

// readState reads the state; a file that is not there is an empty state, and so is a damaged one, with an
// error.
func readState(name string) (*state, []byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return newState(), nil, nil
	}
	if err != nil {
		return newState(), nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxState))
	if err != nil {
		return newState(), nil, err
	}
	s := newState()
	if err := json.Unmarshal(raw, s); err != nil {
		return newState(), nil, fmt.Errorf("cannot read the state of the GPUs' health in %s: %w", name, err)
	}
	for key, m := range s.GPUs {
		if m == nil || m.Base == nil || m.Last == nil || m.Best == nil || m.Had == nil || m.Runs == nil {
			s.GPUs[key] = newMemory()
		}
	}
	if s.Missed == nil || s.Since == nil || s.GPUs == nil {
		return newState(), nil, fmt.Errorf("cannot read the state of the GPUs' health in %s: it has no such parts", name)
	}
	return s, raw, nil
}

// writeState writes the state so that a crash leaves the old or the new one.
func writeState(name string, raw []byte) error {
	temp, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = temp.Write(raw)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	if err := os.Rename(temp.Name(), name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
