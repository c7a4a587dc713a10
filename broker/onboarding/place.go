package onboarding

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

type run = chain.Run[Onboarding]

// place is where a step works: the site as it is now, and the machine once the machine was read.
type place struct {
	maas.Machine
	site   broker.Site
	region *maas.Region
	run    *run
	state  *Onboarding
}

// at finds the site. Faulty credentials of the site affect all of its runs, and hold them.
func (c *Chains) at(ctx context.Context, r *run) (*place, error) {
	site, err := c.Records.Site(ctx, r.State.SiteID)
	if err != nil {
		return nil, storeFault(err)
	}
	region, err := c.Regions.Region(ctx, site)
	if err != nil {
		return nil, chain.Hold("%s", broker.AsError(err).Message)
	}
	return &place{site: site, region: region, run: r, state: &r.State}, nil
}

// Probe asks whether the site answers, whatever the run's stage needs. Every list for a site uses
// Probe.
func (c *Chains) Probe(ctx context.Context, r *run) error {
	at, err := c.at(ctx, r)
	if err != nil {
		return err
	}
	if _, err := at.region.Identify(ctx); err != nil {
		return chain.Hold("%v", err)
	}
	return nil
}

// look reads the machine as it is now. Every change of the machine follows a look in the same step.
func (c *Chains) look(ctx context.Context, r *run) (*place, error) {
	at, err := c.at(ctx, r)
	if err != nil {
		return nil, err
	}
	return at, at.look(ctx)
}

func (at *place) look(ctx context.Context) error {
	m, err := at.region.Machine(ctx, at.state.SystemID)
	if err != nil {
		return at.unseen(ctx, err)
	}
	at.recordObserved(m)
	return nil
}

// listAge is the maximum age of the list from which a waiting stage reads its machine.
const listAge = 5 * time.Second

// findInSharedList finds the machine in a list read at once for all waiting runs. A caller that
// finds the awaited status there looks again at the machine alone.
func (c *Chains) findInSharedList(ctx context.Context, r *run) (*place, error) {
	at, err := c.at(ctx, r)
	if err != nil {
		return nil, err
	}
	m, ok, err := at.region.AwaitedMachine(ctx, r.State.SystemID, listAge)
	switch {
	case err != nil:
		return nil, at.unseen(ctx, err)
	case !ok:
		return at, at.look(ctx)
	}
	at.recordObserved(m)
	return at, nil
}

// findInList is find, but reads the machine from the list for all waiting runs while this list
// shows a release or an erase in progress.
func (at *place) findInList(ctx context.Context) (gone bool, err error) {
	if rc := at.state.Reclaim; !rc.AskedAt.IsZero() && rc.ReadyAt.IsZero() {
		m, ok, err := at.region.AwaitedMachine(ctx, at.state.SystemID, listAge)
		if err != nil {
			return false, at.unseen(ctx, err)
		}
		if ok && (m.Status == maas.Releasing || m.Status == maas.DiskErasing) {
			at.recordObserved(m)
			return false, nil
		}
	}
	return at.find(ctx)
}

// find reads the machine as it is now. gone: MAAS has no record of it.
func (at *place) find(ctx context.Context) (gone bool, err error) {
	m, err := at.region.Machine(ctx, at.state.SystemID)
	switch {
	case err != nil && maas.ClassOf(err) == maas.NotFound:
		return true, nil
	case err != nil:
		return false, at.unseen(ctx, err)
	}
	at.recordObserved(m)
	return false, nil
}

// available reports whether the machine is available to anybody.
func (at *place) available() bool {
	return (at.Status == maas.Ready || at.Status == maas.New) && at.free()
}

// recordObserved records what people are shown of the machine.
func (at *place) recordObserved(m maas.Machine) {
	at.Machine = m
	at.erasing()
	at.run.Reached()
	at.state.Seen = Observed{
		Status: taskcatalog.Clean(m.StatusName, 64), Power: taskcatalog.Clean(m.PowerState, 16), Owner: taskcatalog.Clean(m.Owner, 64),
		LastSync: m.LastSync.Time, ObservedAt: at.run.Now,
	}
	for _, ip := range m.IPAddresses[:min(len(m.IPAddresses), 16)] {
		at.state.Seen.IPs = append(at.state.Seen.IPs, taskcatalog.Clean(ip, 64))
	}
}

// erasing counts how long the machine has been erasing its disks.
func (at *place) erasing() {
	s, now := at.state, at.run.Now
	if at.Status != maas.DiskErasing {
		s.ErasedTill = zero
		return
	}
	if s.ErasedTill.IsZero() {
		if rc := s.Reclaim; rc != nil && rc.nextErase() != maas.EraseNone {
			s.ErasedTill = now // the run requested this erase: no warning
			return
		}
		s.warn("MAAS erases the disks of machine " + at.displayName() +
			"; the run waits without a limit (see the region's enable_disk_erasing_on_release)")
	} else {
		s.Erased += now.Sub(s.ErasedTill)
	}
	s.ErasedTill = now
}

// displayName returns the name by which people know the machine.
func (at *place) displayName() string {
	return taskcatalog.Clean(at.Hostname, 100) + " (" + at.SystemID + ")"
}

// warn adds a line to the run's record, once.
func (s *Onboarding) warn(text string) {
	const most = 50
	if text = taskcatalog.Clean(text, 300); !slices.Contains(s.Warnings, text) && len(s.Warnings) < most {
		s.Warnings = append(s.Warnings, text)
	}
}
