package firstboot

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// DisableFile is the file that keeps cloud-init from running at a boot.
const DisableFile = "/etc/cloud/cloud-init.disabled"

const offText = `# Written by hostler-agent when the first boot was through: what cloud-init would
# carry out at each boot from /var/lib/cloud, a tenant may have changed by then.
`

// CloudInitWillRun reports whether cloud-init will run at the next boot and execute the content of
// /var/lib/cloud.
func CloudInitWillRun(m *machine.Machine) (bool, error) {
	there, err1 := m.Has("/etc/cloud")
	off, err2 := m.Has(DisableFile)
	if err := errors.Join(err1, err2); err != nil || !there {
		return false, err
	}
	if !off {
		return true, nil
	}
	// The kernel's command line overrides the file.
	line, err := m.ReadFile("/proc/cmdline", 64<<10)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, word := range strings.Fields(string(line)) {
		if word == "cloud-init=enabled" {
			return true, nil
		}
	}
	return false, nil
}

// DisableCloudInit keeps cloud-init from running at the next boots, if it is installed. An existing
// file stays as it is.
func DisableCloudInit(m *machine.Machine) error {
	there, err1 := m.Has("/etc/cloud")
	off, err2 := m.Has(DisableFile)
	if err := errors.Join(err1, err2); err != nil || !there || off {
		return err
	}
	return m.WriteFile(DisableFile, []byte(offText), 0o644, 0, 0)
}

// done exists once the enrolling unit need not run any more.
const done = stateDir + "done"

// Enrolled reports whether the enrolling unit of Hostler's first boot has ended, or does not exist.
func Enrolled(m *machine.Machine) bool {
	if _, ours := layers(m); !ours {
		return true
	}
	has, err := m.Has(done)
	return err == nil && has
}

// Managed reports whether the machine had a first boot run by Hostler, and whether it is complete:
// the enrolling unit has ended, and no layer is waiting.
func Managed(m *machine.Machine) (ours, through bool) {
	said, _ := Layers(m)
	if said == nil {
		return false, true
	}
	for _, state := range said {
		if state == taskcatalog.FirstBootWaiting {
			return true, false
		}
	}
	return true, Enrolled(m)
}
