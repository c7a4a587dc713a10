package firstboot

import (
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	bundleFile = "/etc/hostler-bootstrap/bundle"
	stateDir   = "/var/lib/hostler-bootstrap/"
	recordDir  = stateDir + "layers/"

	maxRecord = 4 << 10 // bytes
	maxLayers = 16
)

// Layers returns the capabilities that describe the first boot: taskcatalog.FirstBoot plus a
// layer's name, with done, waiting, or failed and the reason. Nil: the machine had no first boot
// run by Hostler. ended reports whether all layers are done.
func Layers(m *machine.Machine) (said map[string]string, ended bool) {
	names, ours := layers(m)
	if !ours {
		return nil, true
	}
	said, ended = map[string]string{}, true
	for _, name := range names {
		state := record(m, name)
		said[taskcatalog.FirstBoot+taskcatalog.Clean(name, 40)] = state
		ended = ended && state == taskcatalog.FirstBootDone
	}
	return said, ended
}

// layers are the names of the layers that record their outcome.
func layers(m *machine.Machine) (names []string, ours bool) {
	raw, err := m.ReadStrict(bundleFile, maxRecord)
	if err != nil {
		return nil, false
	}
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "layers" {
			continue
		}
		ours = true
		for _, name := range words[1:min(len(words), maxLayers+1)] {
			// The agent's presence is its own record, and cloud-init reports the user itself.
			if name != "agent" && name != "deploy-user" && !strings.ContainsAny(name, "./") {
				names = append(names, name)
			}
		}
	}
	return names, ours
}

// Records are the files in which the layers record their outcomes. Layers that run at every boot
// rewrite them at each boot.
func Records(m *machine.Machine) []string {
	var all []string
	names, _ := layers(m)
	for _, name := range names {
		// A failed layer also writes its reason, and an interrupted write leaves the file .new.
		all = append(all, recordDir+name, recordDir+name+".said", recordDir+name+".new")
	}
	return all
}

// record is a layer's outcome.
func record(m *machine.Machine, name string) string {
	raw, err := m.ReadStrict(recordDir+name, maxRecord)
	if err != nil {
		return taskcatalog.FirstBootWaiting
	}
	word, why, _ := strings.Cut(string(raw), "\n")
	switch word {
	case "done":
		return taskcatalog.FirstBootDone
	case "failed":
		return taskcatalog.FirstBootFailed + taskcatalog.Clean(strings.TrimSpace(why), 150)
	}
	return taskcatalog.FirstBootWaiting
}
