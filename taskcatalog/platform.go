package taskcatalog

import "slices"

// The rows of the table of checks for what lies below the operating system. They
// compare settings, not files, and only they may be named by a site's policy as rows
// that are told and do not keep a node from use.
const (
	CheckBMCUsers    = "bmc_users"
	CheckBMCLAN      = "bmc_lan"
	CheckBMCFirmware = "bmc_firmware"
	CheckEFI         = "efi"
	CheckFirmware    = "firmware_versions"
	CheckSRIOV       = "sriov"
)

// PlatformChecks returns the names of those rows.
func PlatformChecks() []string {
	return []string{CheckBMCUsers, CheckBMCLAN, CheckBMCFirmware, CheckEFI, CheckFirmware, CheckSRIOV}
}

// MaxPlatformSettings is how many settings one row holds; a machine that shows more
// is not read.
const MaxPlatformSettings = 1000

// PlatformRow is what one of those rows was when the baseline was taken. A row that
// is not in a baseline was not looked at, by an agent that did not know it.
type PlatformRow struct {
	Check string `json:"check"`
	// Absent says why there was nothing to read; empty: there was.
	Absent   string            `json:"absent,omitempty"`
	Settings []PlatformSetting `json:"settings,omitempty"` // by name, each once
}

// PlatformSetting is one thing that is set, or one version.
type PlatformSetting struct {
	Name  string `json:"name"` // channel 1 user 2 privilege
	Value string `json:"value,omitempty"`
}

// PlatformRow finds a row of the baseline; nil: it has none of that name.
func (b *Baseline) PlatformRow(check string) *PlatformRow {
	i := slices.IndexFunc(b.Platform, func(r PlatformRow) bool { return r.Check == check })
	if i < 0 {
		return nil
	}
	return &b.Platform[i]
}
