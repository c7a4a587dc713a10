package erase

import "github.com/hostler/hostler/agent/machine"

// Transports returns the transports of the machine's disks, by disk name. An erase accepts pcie,
// sata, sas and mmc as local. Disks that cannot be read are left out.
func Transports(m *machine.Machine) (map[string]string, error) {
	all, unread, err := system{m}.disks()
	if err != nil {
		return nil, err
	}
	by := make(map[string]string, len(all))
	for _, d := range all {
		if unread[d] == nil {
			by[d.name] = d.transport
		}
	}
	return by, nil
}
