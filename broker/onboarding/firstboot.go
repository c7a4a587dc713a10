package onboarding

import (
	"maps"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// siteLayer is the layer of the site's own bootstrap; all other layers are Hostler's.
const siteLayer = "site"

// firstBoot reports how the layers of a node's first boot ended, as the agent reports them. waits
// names a layer that has not ended. A failure says whether the layer is the site's or ours. A
// failure of a layer that another stage judges, or that a run may go without, is a warning.
func (s *Onboarding) firstBoot(n broker.Node) (waits string, err error) {
	for _, name := range slices.Sorted(maps.Keys(n.Capabilities)) {
		layer, is := strings.CutPrefix(name, taskcatalog.FirstBoot)
		if !is {
			continue
		}
		state := taskcatalog.Clean(n.Capabilities[name], 200)
		layer = taskcatalog.Clean(layer, 40)
		why, failed := strings.CutPrefix(state, taskcatalog.FirstBootFailed)
		switch {
		case state == taskcatalog.FirstBootDone:
		case layer == "hw-sync" || layer == "roce":
			if failed {
				s.warn("first boot: layer " + layer + " failed: " + why)
			}
		case failed:
			whose, code := "ours", "failed_first_boot"
			if layer == siteLayer {
				whose, code = "the site's own", "failed_site_bootstrap"
			}
			return "",
				chain.Fail(deployFailure,
					"layer %s of the first boot of node %s, %s, failed: %s (repair the cause, then on the machine: systemctl restart hostler-layer@%s)", layer, n.ID, whose, why, layer).
					With(code, map[string]any{"layer": layer, "why": why, "node_id": n.ID})
		default:
			waits = "layer " + layer + " of its first boot has not ended"
		}
	}
	return waits, nil
}
