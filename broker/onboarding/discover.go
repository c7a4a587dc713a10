package onboarding

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// createOrFind finds the machine with the hostname and BMC address, or creates its record in MAAS.
// All given keys must name the same machine.
func (c *Chains) createOrFind(ctx context.Context, r *run) error {
	at, err := c.at(ctx, r)
	if err != nil {
		return err
	}
	s := &r.State
	known, doubts, err := at.candidates(ctx)
	if err != nil {
		return err
	}
	if s.SystemID != "" && !slices.ContainsFunc(known, func(k candidate) bool { return k.SystemID == s.SystemID }) {
		switch _, err := at.region.Machine(ctx, s.SystemID); {
		case err == nil:
			return chain.Fail(ambiguity, "machine %s of this run no longer has the name %s or its BMC at %s", s.SystemID, s.Hostname,
				s.IPMIIP).With("machine_changed", nil)
		case maas.ClassOf(err) != maas.NotFound:
			return at.unseen(ctx, err)
		}
		s.warn("machine " + s.SystemID + " was deleted from MAAS; the run searches again")
		s.SystemID, s.Claim, s.Created = "", nil, false
	}
	found, err := at.choose(known)
	switch {
	case err != nil:
		return err
	case len(doubts) > 0 && (found == nil || found.bmc == ""):
		return refuseDoubts(s, doubts)
	case found == nil:
		return c.createRecord(ctx, at)
	}
	return c.adopt(ctx, at, *found)
}

// candidate is a machine with at least one matching key, or a keyless machine.
type candidate struct {
	maas.Machine
	bmc     string   // address, as MAAS has it
	matches []string // keys that match the machine
	against []string // keys that contradict the machine, and why
	keyless bool     // no key matches: a New machine whose BMC is unknown to MAAS
}

// candidates are the machines with a matching key, and the keyless machines. doubts name
// machines that may have the BMC, as far as is known: a second record with the same BMC could
// switch a machine in use.
func (at *place) candidates(ctx context.Context) (out []candidate, doubts []string, err error) {
	all, bmcs, err := at.survey(ctx)
	if err != nil {
		return nil, nil, at.unseen(ctx, err)
	}
	at.run.Reached()
	listed := map[string]bool{}
	for m := range all.machines() {
		listed[m.SystemID] = true
		bmc, known := bmcs[m.SystemID]
		if c := at.compareKeys(m, bmc); len(c.matches) > 0 || c.keyless {
			if !known { // bmcs also has machines without an address; no entry: the machine came or went between the two reads
				return nil, nil, chain.AgainFor(ambiguity, soon, "machine %s was just added or deleted", taskcatalog.Clean(m.SystemID, 32))
			}
			out = append(out, c)
		} else if bmc != "" && !maas.Comparable(bmc) && !virtual[m.PowerType] {
			doubts = append(doubts, fmt.Sprintf("the BMC address of machine %s (%s) is %s, which is not an IP address",
				taskcatalog.Clean(m.Hostname, 100), m.SystemID, taskcatalog.Clean(bmc, 64)))
		}
	}
	for id := range all.unread() {
		switch bmc := bmcs[id]; {
		case id != "" && bmc == at.state.IPMIIP:
			return nil, nil,
				chain.Fail(ambiguity,
					"MAAS has a machine %s with its BMC at %s, whose description this broker cannot read (upgrade the broker, or check the machine in MAAS)", id, bmc).
					With("machine_unreadable", map[string]string{"system_id": id})
		case id == "" || !maas.Comparable(bmc):
			doubts = append(doubts, fmt.Sprintf("machine %q of MAAS cannot be read by this broker", id))
		}
		listed[id] = true
	}
	for id, bmc := range bmcs {
		if bmc == at.state.IPMIIP && !listed[id] {
			return nil, nil, chain.AgainFor(ambiguity, soon, "machine %s with its BMC at %s was just added or deleted",
				taskcatalog.Clean(id, 32), bmc)
		}
	}
	return out, doubts, nil
}

// virtual are the drivers of machines that have no BMC, whatever address they have.
var virtual = map[string]bool{"virsh": true, "lxd": true, "vmware": true, "proxmox": true, "nova": true}

// refuseDoubts refuses to give a BMC to a record without it while another machine may have the same
// BMC.
func refuseDoubts(s *Onboarding, doubts []string) error {
	slices.Sort(doubts)
	const most = 5
	told := strings.Join(doubts[:min(len(doubts), most)], "; ")
	if more := len(doubts) - most; more > 0 {
		told += fmt.Sprintf("; and %d more", more)
	}
	return chain.Fail(ambiguity,
		"MAAS has no machine that certainly has its BMC at %s: %s (set the BMC's IP address of these machines in MAAS; or boot %s from the network, and MAAS detects its BMC)", s.IPMIIP, told, s.Hostname).
		With("bmc_unknown", map[string]any{"doubts": doubts[:min(len(doubts), 50)]})
}

// compareKeys compares a machine with each key. A New machine has no name that a person chose, and
// may have neither BMC nor interfaces on record; a missing value counts neither for nor against it.
func (at *place) compareKeys(m maas.Machine, bmc string) candidate {
	s, c := at.state, candidate{Machine: m, bmc: bmc}
	switch {
	case strings.EqualFold(m.Hostname, s.Hostname) || strings.EqualFold(m.FQDN, s.Hostname):
		c.matches = append(c.matches, "hostname")
	case m.Status != maas.New:
		c.against = append(c.against, "its name is "+taskcatalog.Clean(m.Hostname, 100))
	}
	switch {
	case bmc == s.IPMIIP:
		c.matches = append(c.matches, "ipmi_ip")
	case bmc != "":
		c.against = append(c.against, "its BMC is at "+taskcatalog.Clean(bmc, 64))
	case m.Status != maas.New:
		c.against = append(c.against, "MAAS has no address of its BMC")
	}
	if s.PXEMAC != "" {
		has := slices.ContainsFunc(m.Interfaces, func(i maas.Interface) bool { return strings.EqualFold(i.MAC, s.PXEMAC) })
		switch {
		case has:
			c.matches = append(c.matches, "pxe_mac")
		case len(m.Interfaces) > 0:
			c.against = append(c.against, "it has no interface "+s.PXEMAC)
		}
	}
	c.keyless = len(c.matches) == 0 && m.Status == maas.New && bmc == "" && len(c.against) == 0
	return c
}

// choose decides between the candidates; nil: MAAS does not know the machine.
func (at *place) choose(all []candidate) (*candidate, error) {
	var strong, keyless []candidate
	for _, c := range all {
		if c.keyless && c.SystemID == at.state.SystemID {
			return &c, nil // this run chose the machine before
		}
		if c.keyless {
			keyless = append(keyless, c)
		} else {
			strong = append(strong, c)
		}
	}
	s := at.state
	switch {
	case len(strong) > 1:
		return nil, ambiguous(strong, "%s, %s match different machines", s.Hostname, s.IPMIIP)
	case len(strong) == 1 && len(strong[0].against) > 0:
		return nil, ambiguous(strong, "%s, %s: %s leads to a machine, but %s", s.Hostname, s.IPMIIP,
			strings.Join(strong[0].matches, " and "), strings.Join(strong[0].against, " and "))
	case len(strong) == 1:
		return &strong[0], nil
	case !s.Policy.AutoClaimSingleNewMachine || len(keyless) == 0:
		return nil, nil
	case len(keyless) > 1:
		return nil, ambiguous(keyless, "%d New machines could be %s", len(keyless), s.Hostname)
	}
	return &keyless[0], nil
}

func ambiguous(all []candidate, format string, args ...any) error {
	lines, details := []string{}, []map[string]any{}
	for _, c := range all {
		lines = append(lines, fmt.Sprintf("%s (%s, %s, BMC %s)", taskcatalog.Clean(c.Hostname, 100), c.SystemID,
			taskcatalog.Clean(c.StatusName, 64), taskcatalog.Clean(c.bmc, 64)))
		details = append(details, map[string]any{
			"system_id": c.SystemID, "hostname": c.Hostname, "maas_status": c.StatusName, "bmc": c.bmc,
			"matches": c.matches, "against": c.against,
		})
	}
	return chain.Fail(ambiguity, "no single machine matches for certain: "+format+": "+"%s", append(args, strings.Join(lines, ", "))...).
		With("machine_ambiguous", map[string]any{"candidates": details})
}

// adopt takes a known machine for this run, unless the machine is in use. The machine and the
// address of its BMC are read once more; nothing is changed.
func (c *Chains) adopt(ctx context.Context, at *place, found candidate) error {
	s := at.state
	m, err := at.region.Machine(ctx, found.SystemID)
	var power maas.PowerLogin
	if err == nil {
		power, err = at.region.Power(ctx, found.SystemID)
	}
	if err != nil {
		if maas.ClassOf(err) == maas.NotFound {
			return chain.Again(soon, "machine %s has just been deleted", found.SystemID)
		}
		return at.unseen(ctx, err)
	}
	at.recordObserved(m)
	if again := at.compareKeys(m, power.Address()); len(again.matches) != len(found.matches) || len(again.against) > 0 {
		return chain.Again(soon, "machine %s has just been changed", at.displayName())
	}
	if err := at.onboardable(ctx); err != nil {
		return err
	}
	if err := c.unbound(ctx, at); err != nil {
		return err
	}
	s.SystemID = m.SystemID
	at.run.Lock("machine/" + s.Site + "/" + m.SystemID)
	at.run.Note(map[string]any{"system_id": m.SystemID, "by": found.matches}, "machine %s is %s", at.displayName(),
		taskcatalog.Clean(m.StatusName, 64))
	return nil
}

// onboardable refuses a machine that somebody owns or works on.
func (at *place) onboardable(ctx context.Context) error {
	if at.marked() {
		return nil
	}
	switch at.Status {
	case maas.New, maas.Ready, maas.FailedCommissioning, maas.FailedTesting:
		switch {
		case !at.free() && !at.leftover():
			return at.refuseForeign("the machine is in use")
		case at.Locked:
			return at.locked()
		}
		return nil
	case maas.Commissioning, maas.Testing:
		return nil
	case maas.Allocated:
		is, err := at.claimed(ctx)
		if err != nil || is {
			return err
		}
	}
	return at.refuseForeign("the machine is in use, or not usable (if it is the right machine, release or repair it in MAAS)")
}

// createRecord creates a MAAS record for a machine that MAAS does not know.
func (c *Chains) createRecord(ctx context.Context, at *place) error {
	s := at.state
	login, err := c.bmcLogin(ctx, at)
	if err != nil {
		return err
	}
	id, err := at.region.Create(ctx, maas.NewMachine{
		Hostname: s.Hostname, Architecture: s.Policy.Architecture, Address: s.IPMIIP,
		MAC: s.PXEMAC, Power: login,
	})
	switch {
	case err == nil:
		s.SystemID, s.Created = id, true
		at.run.Lock("machine/" + s.Site + "/" + id)
		at.run.Note(map[string]string{"system_id": id}, "machine %s was added to MAAS", id)
		return nil
	case maas.ClassOf(err) == maas.Invalid:
		return chain.Again(settle,
			"MAAS refuses the machine (%v): repair the cause, or boot the machine from the network, and the run finds it by its BMC", err)
	}
	return at.changeFault(ctx, err)
}
