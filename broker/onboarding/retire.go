package onboarding

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// isOff reports whether the machine is off already. A machine that this run powered off does not
// count as found off.
func (c *Chains) isOff(ctx context.Context, r *run) (bool, error) {
	if r.State.Reclaim.OffAttempt > 0 {
		return false, nil
	}
	at, err := c.at(ctx, r)
	if err != nil {
		return false, err
	}
	if gone, err := at.find(ctx); err != nil || gone || !at.available() || at.unsure() {
		return false, err
	}
	state, err := at.power(ctx)
	if err != nil || state != "off" {
		return false, err
	}
	r.Note(nil, "machine %s is off", at.displayName())
	return true, nil
}

// powerOff has MAAS switch the machine off, and is done when the BMC says that the machine is off.
// The machine has no owner and no mark by now: this run has released it, and holds its lock.
func (c *Chains) powerOff(ctx context.Context, r *run) error {
	at, err := c.at(ctx, r)
	if err != nil {
		return err
	}
	rc := r.State.Reclaim
	gone, err := at.find(ctx)
	switch {
	case err != nil:
		return err
	case gone:
		return at.unknownPower("the machine is not in MAAS any more")
	case rc.ReadyAt.IsZero() || !at.available():
		return at.refuseOwned("the machine was to have no owner after its release by this run")
	case at.unsure():
		return at.outcomeUnknown()
	}
	state, err := at.power(ctx)
	switch {
	case err != nil:
		return err
	case state == "off":
		r.Note(nil, "machine %s is off", at.displayName())
		return nil
	case state != "on":
		return at.unknownPower("its BMC reports " + state)
	case at.Locked:
		return at.locked()
	case rc.OffAttempt == r.Attempt:
		return chain.Fail(bmcFailure, "machine %s is still on: switching it off through MAAS had no effect, or it was switched on again",
			at.displayName()).With("still_on", at.details())
	}
	rc.OffAttempt = r.Attempt
	if err := at.region.PowerOffNow(ctx, at.SystemID, "hostler run "+r.ID); err != nil {
		return at.powerFault(ctx, err)
	}
	return chain.Again(soon, "machine %s is being switched off", at.displayName())
}

// unknownPower handles a machine whose power state only a person can determine.
func (at *place) unknownPower(why string) error {
	s := at.state
	if at.run.Adopted {
		s.warn("only an operator has confirmed that machine " + s.SystemID + " is off: " + why)
		at.run.Note(nil, "an operator accepted machine %s in its present state: %s", s.SystemID, why)
		return nil
	}
	return chain.Fail(bmcFailure, "MAAS cannot read whether machine %s of node %s is off: %s", s.SystemID, s.NodeID,
		taskcatalog.Clean(why, 100)).With("power_unknown", nil).
		Next("repair MAAS's access to its BMC, then resume; or check that the machine is off, then adopt")
}

// isForgotten reports whether MAAS need not forget the machine: the request does not ask for it, or
// MAAS has no record of the machine.
func (c *Chains) isForgotten(ctx context.Context, r *run) (bool, error) {
	s, rc := &r.State, r.State.Reclaim
	if !rc.RemoveRecord {
		r.Note(nil, "MAAS keeps its record of machine %s", s.SystemID)
		return true, nil
	}
	at, err := c.at(ctx, r)
	if err != nil || rc.Deletes {
		return false, err
	}
	gone, err := at.find(ctx)
	if gone {
		rc.Removed = true
		r.Note(nil, "MAAS has no record of machine %s", s.SystemID)
	}
	return gone, err
}

// forgetRecord has MAAS forget the machine. If MAAS does not, the rest of the run still ends, and a
// person must delete the record.
func (c *Chains) forgetRecord(ctx context.Context, r *run) error {
	at, err := c.at(ctx, r)
	if err != nil {
		return err
	}
	s, rc := &r.State, r.State.Reclaim
	todo := "machine " + s.SystemID + " is still in MAAS: delete its record there"
	gone, err := at.find(ctx)
	switch {
	case err != nil:
		return err
	case gone:
		rc.Removed = true
		s.Warnings = slices.DeleteFunc(s.Warnings, func(w string) bool { return w == todo })
		r.Note(nil, "MAAS has no record of machine %s any more", s.SystemID)
		return nil
	}
	s.warn(todo)
	switch {
	case rc.ReadyAt.IsZero() || !at.available():
		return at.refuseOwned("the machine was to have no owner after its release by this run")
	case at.Locked:
		return at.locked()
	case at.unsure():
		return at.outcomeUnknown()
	}
	rc.Deletes = true
	if err := at.region.Forget(ctx, at.SystemID); err != nil && maas.ClassOf(err) != maas.NotFound {
		return at.changeFault(ctx, err)
	}
	return chain.Again(next, "MAAS deletes its record of machine %s", at.displayName())
}

// power asks the BMC through MAAS, and distinguishes a fault of the BMC from a fault of the region.
func (at *place) power(ctx context.Context) (string, error) {
	state, err := at.region.PowerState(ctx, at.SystemID)
	if err == nil {
		return state, nil
	}
	if c := maas.ClassOf(err); c != maas.Unavailable && c != maas.Timeout {
		return "", at.unseen(ctx, err)
	}
	if _, err := at.region.Identify(ctx); err != nil {
		return "", chain.Hold("%v", err)
	}
	return "", chain.Fail(bmcFailure, "%w", err)
}
