package maassim

// May reports whether MAAS's model permits the transition between two statuses, given by name.
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
