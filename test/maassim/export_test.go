package maassim

// May reports whether MAAS's model lets a machine go from one status, by its name,
// to another.
func May(from, to string) bool {
	for s := range statuses {
		for _, next := range statuses[s].next {
			if statuses[s].name == from && statuses[next].name == to {
				return true
			}
		}
	}
	return false
}
