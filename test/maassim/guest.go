package maassim

// Guest stands for hardware in earnest: a machine of its own, which boots what MAAS
// has installed. That it asks for its user-data is what makes the machine Deployed,
// and from then on only what it signals moves last_sync. Commissioning and the
// installation itself are played.
//
// It is called while the region is held: it returns at once, and asks the region
// nothing from within.
type Guest interface {
	// Install boots a freshly installed system, in place of what there was. It takes
	// its data by cloud-init's nocloud-net below seed, a path at the region.
	Install(seed string)
	// Erase erases all disks: "secure" and "overwrite" from end to end, "quick" at their
	// ends alone. The power is on, and nothing that was installed runs.
	Erase(how string)
	// Switch turns the power off, or on again with what was installed last. Off may
	// be said of what is off, or was never installed.
	Switch(on bool)
}

// bootInstalled has a guest boot what is installed, if the power is on. A machine that is
// not Deployed boots from the network.
func (m *machine) bootInstalled() {
	if h := m.metal(); h != nil && h.Guest != nil && h.on && m.status == Deployed {
		h.Guest.Switch(true)
	}
}
