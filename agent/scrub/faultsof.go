package scrub

// Fault is a line of the kernel's log that says that a GPU is broken, or does not say that it is well.
type Fault struct {
	Broken bool   // otherwise nobody can tell
	Number string // of an Xid or SXid
	Text   string // in words, with the line
}

// OfGPUDriver reports whether a line of the kernel's log may say something of GPUs: it belongs to a family of
// fault lines, or says that a reset begins.
func OfGPUDriver(line string) bool {
	_, ok := parseFault(line)
	return ok || resetBegins.MatchString(line)
}

// Undecided returns how many lines at the end of a log must be read again together with those that follow:
// the driver may yet say which GPU a line without a device means.
func Undecided(lines []string) int {
	for i := max(0, len(lines)-resetFollows); i < len(lines); i++ {
		if t, ok := parseFault(lines[i]); ok && t.severity == broken && t.at == "" && !t.family.all {
			return len(lines) - i
		}
	}
	return 0
}

// FaultsOf returns the faults that the kernel logged of a GPU, in their order.
func FaultsOf(vendor, address string, lines []string) []Fault {
	var all []Fault
	for i, line := range lines {
		t, ok := judgeLine(vendor, address, lines, i, line)
		if ok && t.severity > harmless {
			all = append(all, Fault{Broken: t.severity == broken, Number: t.number, Text: t.text})
		}
	}
	return all
}

// judgeLine returns what line i of a log means for a GPU; not ok: nothing. A line without a device makes
// every GPU of the vendor doubtful, and condemns the GPU that amdgpu then resets.
func judgeLine(vendor, address string, lines []string, i int, line string) (t faultLine, ok bool) {
	t, ok = parseFault(line)
	if !ok || t.family.vendor != vendor || t.at != "" && !sameFunction(t.at, address) {
		return t, false
	}
	if t.at == "" && !t.family.all && t.severity == broken && !resetSoon(lines[i+1:], address) {
		t.severity = unclear
	}
	return t, true
}

// SameFunction reports whether two PCI addresses are of one function. Drivers leave out the function, or write
// the domain longer.
func SameFunction(logged, address string) bool { return sameFunction(logged, address) }
