package maassim

import (
	"maps"
	"slices"
)

// Arranged is a machine that MAAS has from the start, in any status, without the calls that lead to
// the status. Omitted fields have their values from after commissioning. Arrange schedules nothing:
// a machine arranged in Deploying stays in Deploying.
type Arranged struct {
	SystemID, Hostname string
	Hardware           Hardware
	Status             Status
	Previous           Status // the status after tests, rescue mode and the like
	Owner              string
	Pool, Zone         string // empty: default
	Annotations        map[string]string
	Series             string // the installed system, such as ubuntu/jammy
	HWSync             bool
	Token              bool
	Locked             bool
	Uncommissioned     bool // the machine was never commissioned: a release ends in New
	PowerOn            bool
	PowerType          string // ipmi where empty; MAAS cannot switch the power of a manual machine
}

// Arrange puts a machine's hardware into the rack and the machine into MAAS. It
// returns the machine's system_id.
func (r *Region) Arrange(a Arranged) string {
	defer r.enter()()
	h := &metal{Hardware: a.Hardware, on: a.PowerOn}
	r.metals[h.BMC.Address] = h
	m := r.newMachine(a.Hostname)
	if a.SystemID != "" {
		m.systemID = a.SystemID
	}
	m.powerType, m.powerParams = "ipmi", maps.Clone(ipmiDefaults)
	m.powerParams["power_address"], m.powerParams["power_user"], m.powerParams["power_pass"] = []string{h.BMC.Address},
		[]string{h.BMC.User}, []string{h.BMC.Password}
	if a.PowerType != "" {
		m.powerType = a.PowerType
	}
	m.powerState = map[bool]string{true: "on", false: "off"}[a.PowerOn]
	m.discover(h)
	m.commissioned = !a.Uncommissioned
	m.status, m.previous, m.owner, m.locked = a.Status, a.Previous, a.Owner, a.Locked
	if a.Zone != "" {
		m.zone = poolBody{Name: a.Zone, ID: 2, ResourceURI: "/MAAS/api/2.0/zones/" + a.Zone + "/"}
	}
	maps.Copy(m.annotations, a.Annotations)
	if a.Pool != "" {
		m.pool, _ = r.poolID(a.Pool, true)
	}
	if i := slices.IndexFunc(r.Images, func(i Image) bool { return i.Name == a.Series }); i >= 0 {
		m.osystem, m.series = r.Images[i].osystem(), r.Images[i].series()
	}
	if a.Token {
		m.token = ptr(r.newToken())
	}
	if a.Status == Deployed {
		m.claimAddresses()
		if a.HWSync {
			m.syncs, m.syncInterval, m.lastSync = true, int(span(r.settings["hardware_sync_interval"].(string)).Seconds()), r.moment
		}
		m.comeUp()
	}
	r.event(m, info, m.status.String(), "")
	m.change("arranged", "", m.status.String())
	return m.systemID
}
