package maas

import (
	"context"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// surveyed is a list of all machines, of which those that matter to a run are as they
// are now.
type surveyed struct {
	Snapshot
	anew  listing         // read once more
	asked map[string]bool // ids of which the list is not believed: they are in anew, or gone
}

func (s surveyed) machines() iter.Seq[Machine] {
	return func(yield func(Machine) bool) {
		for _, m := range s.Machines {
			if !s.asked[m.SystemID] && !yield(m) {
				return
			}
		}
		for _, m := range s.anew.machines {
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
		for _, id := range s.anew.unread {
			if !yield(id) {
				return
			}
		}
	}
}

// survey reads what the region has, and the addresses of all BMCs. It does with an older
// list, as a region of many machines works on one for long, and reads once more, alone,
// whatever could be meant: the machines to which a key leads or led, and those that have
// come since and whose BMC may be the one, for all that is known.
func (at *place) survey(ctx context.Context) (surveyed, map[string]string, error) {
	begun := at.region.now()
	all, err := at.region.Lately(ctx)
	if err != nil {
		return surveyed{}, nil, err
	}
	bmcs, err := at.region.addresses(ctx, 0)
	if err != nil || begun.Sub(all.At) <= leastAge {
		return surveyed{Snapshot: all}, bmcs, err
	}
	s, asked, listed := at.state, map[string]bool{}, map[string]bool{}
	for _, m := range all.Machines {
		listed[m.SystemID] = true
		if c := at.weigh(m, bmcs[m.SystemID]); len(c.matches) > 0 || c.loose {
			asked[m.SystemID] = true
		}
	}
	for id, bmc := range bmcs {
		if bmc == s.IPMIIP || !listed[id] && !comparable(bmc) {
			asked[id] = true
		}
	}
	if s.SystemID != "" {
		asked[s.SystemID] = true
	}
	name, _, _ := strings.Cut(s.Hostname, ".") // the rest is a domain to MAAS
	keys := append(byID(slices.Sorted(maps.Keys(asked))), url.Values{"hostname": {name}})
	if s.PXEMAC != "" {
		keys = append(keys, url.Values{"mac_address": {s.PXEMAC}})
	}
	anew, err := at.region.those(ctx, keys...)
	for _, m := range anew.machines {
		asked[m.SystemID] = true
	}
	for _, id := range anew.unread {
		asked[id] = true
	}
	return surveyed{all, anew, asked}, bmcs, err
}
