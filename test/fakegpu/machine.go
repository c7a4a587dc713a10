package fakegpu

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Machine is a folder with the state of some GPUs.
type Machine struct {
	Dir  string // FAKEGPU_DIR
	Libs string // the folder of the libraries and programs

	logged int // bytes of the kernel's log that were read
}

// New makes a machine in an empty folder, with the given lines of config.
func New(dir string, config ...string) (*Machine, error) {
	libs, err := Build()
	if err != nil {
		return nil, err
	}
	m := &Machine{Dir: dir, Libs: libs}
	return m, m.Configure(config...)
}

// Configure replaces the config: the GPUs' faults change, the content of their memory and their
// settings stay.
func (m *Machine) Configure(lines ...string) error {
	return os.WriteFile(filepath.Join(m.Dir, "config"), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// Kmsg returns the kernel's log lines about the GPUs since the last call; nil if the kernel never
// logged any.
func (m *Machine) Kmsg() ([]string, error) {
	raw, err := os.ReadFile(filepath.Join(m.Dir, "kmsg"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	fresh := raw[min(m.logged, len(raw)):]
	m.logged = len(raw)
	return strings.Split(strings.TrimSuffix(string(fresh), "\n"), "\n"), err
}

// Env is the environment in which a process finds the machine and its libraries. GORACE avoids the
// race detector's sleep of a second at a child's end.
func (m *Machine) Env() []string {
	return []string{"FAKEGPU_DIR=" + m.Dir, "LD_LIBRARY_PATH=" + m.Libs, "GORACE=atexit_sleep_ms=0"}
}

func (m *Machine) vram(gpu int) string { return filepath.Join(m.Dir, fmt.Sprintf("gpu%d.vram", gpu)) }

// Plant writes into a GPU's memory past every library, as a tenant's data that no driver cleared.
func (m *Machine) Plant(gpu int, offset int64, data []byte) error {
	f, err := os.OpenFile(m.vram(gpu), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(data, offset)
	return err
}

// Count counts a token in the memory of a GPU.
func (m *Machine) Count(gpu int, token string) (int, error) {
	raw, err := os.ReadFile(m.vram(gpu))
	return bytes.Count(raw, []byte(token)), err
}
