package taskcatalog

import "slices"

// Rows of the table of checks for the state below the operating system. These rows compare
// settings, not files. A site's policy may declare only these rows as reported without keeping a
// node from use.
const (
	CheckBMCUsers    = "bmc_users"
	CheckBMCLAN      = "bmc_lan"
	CheckBMCFirmware = "bmc_firmware"
	CheckEFI         = "efi"
	CheckFirmware    = "firmware_versions"
	CheckSRIOV       = "sriov"
)

// PlatformChecks returns the names of the platform rows.
func PlatformChecks() []string {
	return []string{CheckBMCUsers, CheckBMCLAN, CheckBMCFirmware, CheckEFI, CheckFirmware, CheckSRIOV}
}

// MaxPlatformSettings is the greatest number of settings in one row. A machine that shows more
// settings is not read.
const MaxPlatformSettings = 1000

// PlatformRow is the state of one platform row when the baseline was taken. A row that is missing
// in a baseline was not examined, because the agent did not know the row.
type PlatformRow struct {
	Check string `json:"check"`
	// Absent says why there was nothing to read; empty: the row was read.
	Absent   string            `json:"absent,omitempty"`
	Settings []PlatformSetting `json:"settings,omitempty"` // by name, each once
}

// PlatformSetting is one setting or one version.
type PlatformSetting struct {
	Name  string `json:"name"` // channel 1 user 2 privilege
	Value string `json:"value,omitempty"`
}

// PlatformRow returns the row of the baseline with the name check, or nil.
func (b *Baseline) PlatformRow(check string) *PlatformRow {
	i := slices.IndexFunc(b.Platform, func(r PlatformRow) bool { return r.Check == check })
	if i < 0 {
		return nil
	}
	return &b.Platform[i]
}
