package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// Platform is a single look at the platform. It queries the BMC once.
type Platform struct {
	Machine  *machine.Machine
	Commands *command.Runner
	// CardFirmware returns a network card's firmware version: the function CardFirmware.
	CardFirmware func(name string) (string, error)

	controller *bmc // once it was asked
}

// Reading is the present state of a row.
type Reading struct {
	Absent   string // why there is nothing to read
	Settings []taskcatalog.PlatformSetting
}

// rows are the readings, by the row of the table of checks.
var rows = map[string]func(*Platform, context.Context) (Reading, error){
	taskcatalog.CheckBMCUsers:    (*Platform).bmcUsers,
	taskcatalog.CheckBMCLAN:      (*Platform).bmcLAN,
	taskcatalog.CheckBMCFirmware: (*Platform).bmcFirmware,
	taskcatalog.CheckEFI:         (*Platform).efi,
	taskcatalog.CheckFirmware:    (*Platform).firmware,
	taskcatalog.CheckSRIOV:       (*Platform).sriov,
}

// Read reads a row. Settings are sorted by name, without duplicates; with an error they are the
// settings that could be read.
func (p *Platform) Read(ctx context.Context, check string) (Reading, error) {
	r, err := rows[check](p, ctx)
	slices.SortFunc(r.Settings, func(a, b taskcatalog.PlatformSetting) int { return cmp.Compare(a.Name, b.Name) })
	if len(r.Settings) > taskcatalog.MaxPlatformSettings {
		return Reading{}, fmt.Errorf("the machine has %d settings, and the agent compares at most %d", len(r.Settings),
			taskcatalog.MaxPlatformSettings)
	}
	for i := 1; i < len(r.Settings); i++ {
		if name := r.Settings[i].Name; name == r.Settings[i-1].Name {
			return Reading{}, fmt.Errorf("the machine reports the setting %s twice", name)
		}
	}
	return r, err
}

// Limits of a setting, in bytes.
const (
	maxName  = 200
	maxValue = 400
)

func (r *Reading) set(name, value string) {
	r.Settings = append(r.Settings, setting(name, value))
}

func setting(name, value string) taskcatalog.PlatformSetting {
	return taskcatalog.PlatformSetting{
		Name:  taskcatalog.Clean(collapseSpaces(name), maxName),
		Value: taskcatalog.Clean(collapseSpaces(value), maxValue),
	}
}

// collapseSpaces is text without padding blanks.
func collapseSpaces(text string) string { return strings.Join(strings.Fields(text), " ") }

// text reads an attribute of sysfs; "" if it does not exist.
func (p *Platform) text(name string) (string, error) {
	raw, err := p.Machine.ReadFile(name, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return collapseSpaces(string(raw)), err
}
