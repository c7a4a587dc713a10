package erase

import "github.com/hostler/hostler/agent/machine"

// Transports are how the machine's disks are reached, by their names: pcie, sata, sas and
// mmc are what an erase takes for the machine's own. One of which that cannot be read is not
// among them.
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
