package maassim

// Guest stands in for real hardware: a separate machine that boots what MAAS installed. The guest's
// request for its user-data makes the machine Deployed; from then on only the guest's signals move
// last_sync. Commissioning and the installation itself are simulated.
//
// The region calls a Guest while it holds its lock: every method returns at once and does not call
// the region.
type Guest interface {
	// Install boots a freshly installed system in place of the previous system. The system reads
	// its data with cloud-init's nocloud-net below seed, a path at the region.
	Install(seed string)
	// Erase erases all disks: "secure" and "overwrite" erase every byte, "quick" only the ends of
	// each disk. The power is on, and no installed system runs.
	Erase(how string)
	// Switch turns the power off, or on with the system that was installed last. Off is valid for a
	// guest that is off already or was never installed.
	Switch(on bool)
}

// bootInstalled boots the guest's installed system if the power is on. A machine that is not
// Deployed boots from the network.
func (m *machine) bootInstalled() {
	if h := m.metal(); h != nil && h.Guest != nil && h.on && m.status == Deployed {
		h.Guest.Switch(true)
	}
}
