package onboarding

import (
	"context"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker/maas"
)

// machineSurvey is a list of all machines, some of which were read again.
type machineSurvey struct {
	maas.Snapshot
	reread    maas.Listing    // machines that were read again
	rereadIDs map[string]bool // ids whose entry in the list is not trusted: they are in reread, or gone
}

func (s machineSurvey) machines() iter.Seq[maas.Machine] {
	return func(yield func(maas.Machine) bool) {
		for _, m := range s.Machines {
			if !s.rereadIDs[m.SystemID] && !yield(m) {
				return
			}
		}
		for _, m := range s.reread.Machines {
			if !yield(m) {
				return
			}
		}
	}
}

func (s machineSurvey) unread() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, id := range s.Unread {
			if !s.rereadIDs[id] && !yield(id) {
				return
			}
		}
		for _, id := range s.reread.Unread {
			if !yield(id) {
				return
			}
		}
	}
}

// survey reads the region's machines and the addresses of all BMCs. An older list is accepted,
// because a region of many machines needs long for a list. survey then reads again, apart from the
// list, every machine for which an old entry is not enough to decide.
func (at *place) survey(ctx context.Context) (machineSurvey, map[string]string, error) {
	begun := at.region.Now()
	all, err := at.region.RecentMachines(ctx)
	if err == nil && all.At.Before(begun) && slices.Contains(all.Unread, "") { // an entry without an id cannot be read alone
		all, err = at.region.Machines(ctx, 0)
	}
	if err != nil {
		return machineSurvey{}, nil, err
	}
	bmcs, err := at.region.Addresses(ctx, 0)
	if err != nil || at.region.Now().Sub(all.At) <= maas.MinAge {
		return machineSurvey{Snapshot: all}, bmcs, err
	}
	asked := at.suspects(all, bmcs)
	// The rest of the name is a domain to MAAS. This query is case-sensitive in MAAS.
	name, _, _ := strings.Cut(at.state.Hostname, ".")
	keys := append(maas.ByID(slices.Sorted(maps.Keys(asked))), url.Values{"hostname": {name}})
	if mac := at.state.PXEMAC; mac != "" {
		keys = append(keys, url.Values{"mac_address": {mac}})
	}
	anew, err := at.region.FilteredMachines(ctx, keys...)
	for _, m := range anew.Machines {
		asked[m.SystemID] = true
	}
	for _, id := range anew.Unread {
		asked[id] = true
	}
	return machineSurvey{all, anew, asked}, bmcs, err
}

// suspects returns the machines whose entry in an older list is not trusted. These are machines
// that a key matches, machines that may be claimed without a key, machines whose BMC may be the
// run's whatever their address says (their power settings may have changed, and machines without an
// address may have been added since), and machines that could not be read.
func (at *place) suspects(all maas.Snapshot, bmcs map[string]string) map[string]bool {
	asked, listed := map[string]bool{}, map[string]bool{}
	for _, m := range all.Machines {
		bmc := bmcs[m.SystemID]
		listed[m.SystemID] = true
		switch {
		case len(at.compareKeys(m, bmc).matches) > 0,
			bmc == "" && at.state.Policy.AutoClaimSingleNewMachine: // the machine may be New by now
			asked[m.SystemID] = true
		}
	}
	for id, bmc := range bmcs {
		if bmc == at.state.IPMIIP || !maas.Comparable(bmc) && (bmc != "" || !listed[id]) {
			asked[id] = true
		}
	}
	for _, id := range all.Unread {
		if id != "" {
			asked[id] = true
		}
	}
	return asked
}
