package firstboot

import (
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	bundleFile = "/etc/hostler-bootstrap/bundle"
	recordDir  = "/var/lib/hostler-bootstrap/layers/"

	maxRecord = 4 << 10 // bytes
	maxLayers = 16
)

// Layers are the capabilities that tell of a first boot: taskcatalog.FirstBoot and
// a layer's name, with done, waiting, or failed and why. Nil: the machine had no
// first boot of ours. Ended reports whether none waits or has failed.
func Layers(m *machine.Machine) (said map[string]string, ended bool) {
	raw, err := m.ReadStrict(bundleFile, maxRecord)
	if err != nil {
		return nil, true
	}
	ended = true
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "layers" {
			continue
		}
		said = map[string]string{}
		for _, name := range words[1:min(len(words), maxLayers+1)] {
			// The agent is there, and cloud-init tells of the user itself.
			if name == "agent" || name == "deploy-user" || strings.ContainsAny(name, "./") {
				continue
			}
			state := record(m, name)
			said[taskcatalog.FirstBoot+taskcatalog.Clean(name, 40)] = state
			ended = ended && state == taskcatalog.FirstBootDone
		}
	}
	return said, ended
}

// record is how one layer ended.
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
