package platform

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hostler/hostler/agent/command"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// bmc is the result of a look at the BMC.
type bmc struct {
	absent   string
	err      error // present, or possibly present, but not answering
	info     []taskcatalog.PlatformSetting
	channels []channel
}

// bmc queries the BMC's identity and channels, once per Platform.
func (p *Platform) bmc(ctx context.Context) *bmc {
	if p.controller == nil {
		b := &bmc{}
		if b.absent, b.err = p.noBMC(); b.absent == "" && b.err == nil {
			b.err = p.readBMC(ctx, b)
		}
		p.controller = b
	}
	return p.controller
}

func (p *Platform) readBMC(ctx context.Context, b *bmc) error {
	raw, err := p.ipmi(ctx, "ipmi_mc_info", 0)
	if err != nil {
		return err
	}
	if b.info, err = parseDevice(raw); err != nil {
		return err
	}
	for number := 1; number <= lastChannel; number++ {
		raw, err := p.ipmi(ctx, "ipmi_channel_info", number)
		if errors.Is(err, errNoChannel) {
			continue
		}
		if err != nil {
			return err
		}
		c, err := parseChannel(number, raw)
		if err != nil {
			return err
		}
		b.channels = append(b.channels, c)
	}
	return nil
}

// lastChannel is the highest channel number that a BMC may have; the numbers above it stand for the
// asking channel and for the inside of the machine.
const lastChannel = 11

var errNoChannel = errors.New("the BMC has no such channel")

// missingChannel are a BMC's answers about a missing channel. ipmitool gives the same answers on a
// present channel that does not report its access settings, but prints the channel's kind before.
var missingChannel = []string{"Invalid data field in request", "Parameter out of range", "Requested sensor, data, or record not found"}

// ipmi runs a query of the BMC.
func (p *Platform) ipmi(ctx context.Context, id string, channel int) ([]byte, error) {
	args := map[string]any{}
	if channel > 0 {
		args["channel"] = channel
	}
	res, err := p.Commands.Run(ctx, profiles.BMCTools()[id], args)
	switch {
	case taskcatalog.CodeOf(err, "") == command.CodeExecutableMissing:
		return nil, errors.New("the machine has a BMC, and ipmitool is not installed (install it, then hostler node baseline retake)")
	case err != nil:
		return nil, fmt.Errorf("the machine has a BMC that does not answer: %w (reset or repair the BMC)", err)
	case res.Stdout.Cut():
		return nil, fmt.Errorf("ipmitool printed %d bytes, more than the limit", res.Stdout.Total)
	case res.ExitCode == 0:
		return res.Stdout.Kept, nil
	}
	said := string(res.Stderr.Kept)
	for _, answer := range missingChannel {
		if res.Stdout.Total == 0 && strings.Contains(said, "IPMI command failed: "+answer) {
			return nil, errNoChannel
		}
	}
	return nil, fmt.Errorf("the machine's BMC does not describe its channel %d: %s", channel, strings.Join(res.Stderr.Lines(3), "; "))
}

// noBMC returns why the machine has no BMC; "" if it has one. An error means that this is unknown.
func (p *Platform) noBMC() (string, error) {
	for _, name := range []string{"/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"} {
		if has, err := p.Machine.Has(name); has || err != nil {
			return "", err
		}
	}
	for _, signs := range []struct{ dir, prefix string }{{"/sys/class/ipmi", ""}, {"/sys/bus/acpi/devices", "IPI0001"}} {
		names, err := p.Machine.Names(signs.dir)
		if err != nil {
			return "", err
		}
		for _, name := range names {
			if strings.HasPrefix(name, signs.prefix) {
				return "", nil
			}
		}
	}
	functions, err := p.functions()
	if err != nil {
		return "", err
	}
	for _, f := range functions {
		if strings.HasPrefix(f.class, "0x0c07") { // an IPMI interface
			return "", nil
		}
	}
	raw, err := p.Machine.ReadFile("/sys/firmware/dmi/tables/DMI", maxSMBIOS)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("cannot tell whether the machine has a BMC: it has no SMBIOS table")
	}
	if err != nil {
		return "", err
	}
	has, err := hasManagementController(raw)
	if has || err != nil {
		return "", err
	}
	return "the machine has no BMC: none in its SMBIOS table, in ACPI or on the PCI bus, and no driver of one", nil
}

func (p *Platform) bmcUsers(ctx context.Context) (Reading, error) {
	b := p.bmc(ctx)
	r := Reading{Absent: b.absent}
	if b.absent != "" || b.err != nil {
		return r, b.err
	}
	for _, c := range b.channels {
		r.Settings = append(r.Settings, c.settings...)
		if !c.sessions {
			continue
		}
		raw, err := p.ipmi(ctx, "ipmi_channel_users", c.number)
		if err != nil {
			return r, err
		}
		users, err := parseUsers(c.number, raw)
		if err != nil {
			return r, err
		}
		r.Settings = append(r.Settings, users...)
	}
	return r, nil
}

func (p *Platform) bmcLAN(ctx context.Context) (Reading, error) {
	b := p.bmc(ctx)
	r := Reading{Absent: b.absent}
	if b.absent != "" || b.err != nil {
		return r, b.err
	}
	for _, c := range b.channels {
		if !c.lan {
			continue
		}
		raw, err := p.ipmi(ctx, "ipmi_lan_print", c.number)
		if err != nil {
			return r, err
		}
		all, err := parseLAN(c.number, raw)
		if err != nil {
			return r, err
		}
		r.Settings = append(r.Settings, all...)
	}
	return r, nil
}

func (p *Platform) bmcFirmware(ctx context.Context) (Reading, error) {
	b := p.bmc(ctx)
	return Reading{Absent: b.absent, Settings: b.info}, b.err
}
