package onboarding

import (
	"context"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// Values of Onboarding.Failed: what a person must repair.
const (
	failedCommissioning = "commissioning"
	failedHardware      = "hardware"
)

// commission has MAAS commission a machine that MAAS has not commissioned yet.
func (c *Chains) commission(ctx context.Context, r *run) error {
	at, err := c.look(ctx, r)
	if err != nil {
		return err
	}
	switch at.Status {
	case maas.Commissioning, maas.Testing, maas.Ready:
		r.Note(nil, "machine is %s already", taskcatalog.Clean(at.StatusName, 64))
		return nil
	case maas.New, maas.FailedCommissioning:
		if !at.free() && !at.leftover() {
			return at.refuseForeign("the machine is in use")
		}
		return c.startCommissioning(ctx, at)
	}
	if at.marked() {
		return nil
	}
	return at.onboardable(ctx)
}

// startCommissioning sets the machine's name and its BMC's login in one step, and commissions the
// machine in another. Commissioning cycles the power: a running machine that this run has not
// switched on itself is left to a person, unless the policy allows discovery_power_cycle. Nil: the
// commissioning has begun.
func (c *Chains) startCommissioning(ctx context.Context, at *place) error {
	s := at.state
	if at.Locked {
		return at.locked()
	}
	if at.Status != maas.Ready { // a Ready machine is configured already
		if done, err := c.configured(ctx, at); err != nil || !done {
			return err
		}
	}
	if !s.Powered && !s.Policy.DiscoveryPowerCycle {
		if err := at.off(ctx); err != nil {
			return err
		}
	}
	s.Powered = true // set before the request is sent
	begin := at.region.Commission
	if at.Status == maas.FailedTesting { // MAAS refuses to commission such a machine; the failed tests are run again
		begin = at.region.Test
	}
	if err := begin(ctx, at.SystemID); err != nil {
		return at.powerFault(ctx, err)
	}
	s.Failed, s.Recommission = "", false
	return nil
}

// configured reports whether MAAS has the machine's name and its BMC's login.
func (c *Chains) configured(ctx context.Context, at *place) (bool, error) {
	s := at.state
	if s.Reclaim != nil { // the release already worked with the machine's present settings
		return true, nil
	}
	login, err := c.bmcLogin(ctx, at)
	if err != nil {
		return false, err
	}
	has, err := at.region.Power(ctx, at.SystemID)
	if err != nil {
		return false, at.unseen(ctx, err)
	}
	if maas.SwitchedBy(at.PowerType) && has.Is(s.IPMIIP, login) && at.named() {
		return true, nil
	}
	if err := at.region.Configure(ctx, at.Machine, s.Hostname, s.IPMIIP, login); err != nil {
		return false, at.changeFault(ctx, err)
	}
	return false, chain.Again(next, "machine %s has its name and the login of its BMC", at.SystemID)
}

func (at *place) named() bool {
	c := at.compareKeys(at.Machine, "")
	return len(c.matches) > 0 && c.matches[0] == "hostname"
}

// off requires that the machine's power is off.
func (at *place) off(ctx context.Context) error {
	state, err := at.power(ctx)
	switch {
	case err != nil:
		return err
	case state == "off":
		return nil
	case state == "on":
		return chain.Again(settle,
			"machine %s at %s runs: if it is the right machine, switch it off (or set discovery_power_cycle in the profile)", at.SystemID,
			at.state.IPMIIP)
	}
	return chain.Fail(bmcFailure, "MAAS cannot read whether machine %s at %s is on: its BMC reports %q", at.SystemID, at.state.IPMIIP,
		state)
}

// waitForReady waits until MAAS has commissioned the machine.
func (c *Chains) waitForReady(ctx context.Context, r *run) error {
	at, err := c.findInSharedList(ctx, r)
	if err != nil {
		return err
	}
	switch at.Status {
	case maas.Commissioning, maas.Testing:
		return chain.Again(patience(r, lookAgain), "machine is %s", at.StatusName)
	}
	if err := at.look(ctx); err != nil {
		return err
	}
	s := &r.State
	switch at.Status {
	case maas.Commissioning, maas.Testing:
		return chain.Again(patience(r, lookAgain), "machine is %s", at.StatusName)
	case maas.Ready:
		if !at.free() && !at.leftover() {
			return at.refuseForeign("the machine is in use")
		}
		s.Failed, s.Recommission = "", false
		return nil
	case maas.FailedCommissioning, maas.FailedTesting:
		if s.Failed != "" {
			s.Failed, s.Recommission = "", true // a person has looked and resumed the run
		}
		if s.Recommission && (at.free() || at.leftover()) {
			return c.recommission(ctx, at)
		}
		return at.notCommissioned(ctx)
	}
	if at.marked() {
		return nil
	}
	return at.refuseForeign("the machine was to become Ready, and was changed meanwhile (if it is free again, rerun)")
}

// notCommissioned returns the failure of a machine whose commissioning or tests failed.
func (at *place) notCommissioned(ctx context.Context) error {
	why := at.failureReason(ctx)
	at.state.Failed = failedCommissioning
	details := at.details()
	details["maas_events"] = why.events
	if at.Status == maas.FailedTesting {
		return chain.Fail(mismatch, "machine %s did not pass its tests: %s", at.displayName(), why).With("failed_testing", details).
			Next("repair the machine, then resume: MAAS tests it again; or override the failed tests in MAAS, then resume")
	}
	if never, err := at.region.NeverBooted(ctx, at.SystemID); err == nil && never {
		return chain.Fail(pxeDiscovery, "machine %s never booted from the network: %s", at.displayName(), why).With("failed_commission",
			details)
	}
	return chain.Fail(mismatch, "machine %s was not commissioned: %s", at.displayName(), why).With("failed_commission", details).
		Next("repair the named cause, on the machine or in the script, then resume: MAAS commissions it again")
}
