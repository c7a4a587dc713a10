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

// surveyed is a list of all machines, of which some were read once more.
type surveyed struct {
	maas.Snapshot
	anew  maas.Listing    // read once more
	asked map[string]bool // ids of which the list is not believed: they are in anew, or gone
}

func (s surveyed) machines() iter.Seq[maas.Machine] {
	return func(yield func(maas.Machine) bool) {
		for _, m := range s.Machines {
			if !s.asked[m.SystemID] && !yield(m) {
				return
			}
		}
		for _, m := range s.anew.Machines {
			if !yield(m) {
				return
			}
		}
	}
}

func (s surveyed) unread() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, id := range s.Unread {
			if !s.asked[id] && !yield(id) {
				return
			}
		}
		for _, id := range s.anew.Unread {
			if !yield(id) {
				return
			}
		}
	}
}

// survey reads what the region has, and the addresses of all BMCs. It does with an older
// list, as a region of many machines works on one for long, and reads once more, by
// themselves, all those of which more than the list could decide.
func (at *place) survey(ctx context.Context) (surveyed, map[string]string, error) {
	begun := at.region.Now()
	all, err := at.region.Lately(ctx)
	if err == nil && all.At.Before(begun) && slices.Contains(all.Unread, "") { // which cannot be asked for
		all, err = at.region.Machines(ctx, 0)
	}
	if err != nil {
		return surveyed{}, nil, err
	}
	bmcs, err := at.region.Addresses(ctx, 0)
	if err != nil || at.region.Now().Sub(all.At) <= maas.LeastAge {
		return surveyed{Snapshot: all}, bmcs, err
	}
	asked := at.doubted(all, bmcs)
	// The rest is a domain to MAAS, which knows capitals from small letters here.
	name, _, _ := strings.Cut(at.state.Hostname, ".")
	keys := append(maas.ByID(slices.Sorted(maps.Keys(asked))), url.Values{"hostname": {name}})
	if mac := at.state.PXEMAC; mac != "" {
		keys = append(keys, url.Values{"mac_address": {mac}})
	}
	anew, err := at.region.Those(ctx, keys...)
	for _, m := range anew.Machines {
		asked[m.SystemID] = true
	}
	for _, id := range anew.Unread {
		asked[id] = true
	}
	return surveyed{all, anew, asked}, bmcs, err
}

// doubted are the machines of which an older list is not believed: those to which a key
// leads or led, those that may be claimed without one, those whose BMC may be the run's for
// all that its address says (how it is switched may have changed, and those without an
// address may have come since), and those that could not be read.
func (at *place) doubted(all maas.Snapshot, bmcs map[string]string) map[string]bool {
	asked, listed := map[string]bool{}, map[string]bool{}
	for _, m := range all.Machines {
		bmc := bmcs[m.SystemID]
		listed[m.SystemID] = true
		switch {
		case len(at.weigh(m, bmc).matches) > 0,
			bmc == "" && at.state.Policy.AutoClaimSingleNewMachine: // it may be New by now
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
