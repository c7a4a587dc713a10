package onboarding

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// The failure classes of these stages.
const (
	inputError        = chain.Class(broker.InputConfigError)
	capabilityMissing = chain.Class(broker.SiteCapabilityMissing)
	transient         = chain.Class(broker.UpstreamTransient)
	bmcFailure        = chain.Class(broker.BMCPowerFailure)
	pxeDiscovery      = chain.Class(broker.PXEDiscoveryFailure)
	mismatch          = chain.Class(broker.HardwareMismatch)
	deployFailure     = chain.Class(broker.DeployCloudInitFailure)
	connectivity      = chain.Class(broker.PostDeployConnectivity)
	syncFailure       = chain.Class(broker.HardwareSyncFailure)
	enrollmentFailure = chain.Class(broker.AgentEnrollmentFailure)
	ambiguity         = chain.Class(broker.StateAmbiguity)
)

// Delays until a stage looks again.
const (
	next      = time.Second // avoids a tight loop with a region that accepts a request and does nothing
	soon      = 5 * time.Second
	lookAgain = 15 * time.Second
	settle    = 30 * time.Second // MAAS may still carry out a call without an answer
	late      = 3 * time.Minute  // then MAAS no longer carries it out: MAAS retries for 90 s, and a request may queue behind lists
)

// least is the shortest delay of patience.
const least = 2 * time.Second

// patience is the delay until a stage looks again at work that may end soon or late, such as a
// deployment: half of the stage's time so far, up to most. So quick work is noticed early, and slow
// work costs few looks.
func patience(r *run, most time.Duration) time.Duration {
	return min(max(r.Now.Sub(r.EnteredAt)/2, least), most)
}

// unseen handles a step that could not look: no attempt is spent, and the site is held where no
// part of the site answers.
func (at *place) unseen(ctx context.Context, err error) error {
	switch maas.ClassOf(err) {
	case maas.NotFound:
		return chain.Fail(ambiguity, "machine %s was deleted from MAAS", at.state.SystemID).With("machine_gone", nil)
	case maas.Unauthorized, maas.ClockSkew:
		return chain.Hold("%v", err)
	case maas.ConflictRetry:
		return chain.AgainFor(transient, max(retryAfter(err), soon), "%v", err)
	case maas.Unavailable, maas.Timeout, maas.UnknownOutcome:
		return at.regionFault(ctx, err)
	case maas.Forbidden:
		return at.forbidden(ctx, err)
	}
	return chain.Fail(transient, "%w", err)
}

// regionFault finds out whether the whole region does not answer, or only this request.
func (at *place) regionFault(ctx context.Context, why error) error {
	if _, err := at.region.Identify(ctx); err != nil {
		return chain.Hold("%v", err)
	}
	at.run.Reached()
	return chain.AgainFor(transient, lookAgain, "%v", why)
}

// forbidden finds out whether the key is an administrator's. If so, the machine was locked just
// now, and the next look shows it.
func (at *place) forbidden(ctx context.Context, why error) error {
	id, err := at.region.Identify(ctx)
	switch {
	case err != nil:
		return chain.Hold("%v", err)
	case !id.Admin:
		return chain.Hold("%v: the token belongs to %s, who is not an administrator", why, id.User)
	}
	return chain.Again(lookAgain, "%v", why)
}

// changeFault handles a step whose change was refused or has an unknown outcome. The change is
// never repeated from here: the stage looks again, and decides by the machine's state.
func (at *place) changeFault(ctx context.Context, err error) error {
	at.noteUnknownOutcome(err)
	switch maas.ClassOf(err) {
	case maas.UnknownOutcome:
		return chain.AgainFor(transient, settle, "%v: checking the outcome", err)
	case maas.RefusedState:
		return chain.AgainFor(transient, soon, "%v", err)
	case maas.Invalid:
		return refused(err)
	}
	return at.unseen(ctx, err)
}

// noteUnknownOutcome records when an outcome became unknown. The time is by the clock of all
// brokers, because another broker may be the one to wait.
func (at *place) noteUnknownOutcome(err error) {
	if maas.ClassOf(err) != maas.UnknownOutcome {
		return
	}
	if c := at.state.Claim; c != nil {
		c.Unheard = at.run.Clock()
	}
	if rc := at.state.Reclaim; rc != nil {
		rc.Unheard = at.run.Clock()
	}
}

// unsure reports whether MAAS may still carry out a requested change: no answer came, or the broker
// that asked died or was cut off. Meanwhile nothing is undone, and no machine is let go that
// appears free: the late change would hit a machine that is free by then, or somebody else's.
func (at *place) unsure() bool {
	last := at.run.LostAt
	if c := at.state.Claim; c != nil && c.Unheard.After(last) {
		last = c.Unheard
	}
	if rc := at.state.Reclaim; rc != nil && rc.Unheard.After(last) {
		last = rc.Unheard
	}
	return !last.IsZero() && at.run.Now.Sub(last) < late
}

func (at *place) outcomeUnknown() error {
	return chain.Again(settle, "machine is %s; MAAS may still perform an action that it did not answer",
		taskcatalog.Clean(at.StatusName, 64))
}

// powerFault is changeFault for changes of a machine's power: MAAS's report of a failed switch is a
// failure of the BMC, and spends an attempt.
func (at *place) powerFault(ctx context.Context, err error) error {
	var e *maas.Error
	if !errors.As(err, &e) || e.Class != maas.UnknownOutcome && e.Class != maas.Unavailable {
		return at.changeFault(ctx, err)
	}
	if e.Status == http.StatusServiceUnavailable && e.RetryAfter == 0 && e.Detail != "" {
		// MAAS's own words. MAAS has restored the status, or the next look shows otherwise.
		return at.failedOr(ctx, bmcFailure, err)
	}
	at.noteUnknownOutcome(err)
	switch {
	case e.Class == maas.Unavailable:
		return at.regionFault(ctx, err)
	case e.Status == 0, e.Status == http.StatusBadGateway, e.Status == http.StatusGatewayTimeout:
		// No answer of MAAS's own: MAAS may be at work, and then nothing has failed.
		return chain.AgainFor(transient, settle, "%v: checking the outcome", err)
	}
	return at.failedOr(ctx, transient, err)
}

// failedOr is the failure of a change refused in MAAS's own words, if the machine's status confirms
// the failure. A change that took effect nevertheless has not failed.
func (at *place) failedOr(ctx context.Context, class chain.Class, err error) error {
	before := at.Status
	if unseen := at.look(ctx); unseen != nil {
		return unseen
	}
	if at.Status != before {
		return chain.AgainFor(class, next, "%v: nevertheless the machine is %s", err, taskcatalog.Clean(at.StatusName, 64))
	}
	return chain.Fail(class, "%w: checking the outcome", err)
}

func retryAfter(err error) time.Duration {
	var e *maas.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// storeFault handles a step that failed because of the broker's own records or the secrets.
func storeFault(err error) error {
	var e *broker.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == CodeHardwareMismatch:
		return chain.Fail(mismatch, "%w", err).With(e.Code, nil)
	case e.Kind == broker.Unavailable:
		return &storeError{e}
	case e.Kind == broker.Invalid || e.Kind == broker.NotFound || e.Kind == broker.Refused:
		return chain.Fail(inputError, "%w", err).With(e.Code, nil)
	}
	return err
}

// storeError is a missing record or secret of the broker's own. The cause may affect the whole
// site, or this run only.
type storeError struct{ why *broker.Error }

func (w *storeError) Error() string { return w.why.Message }

// Unwrap returns the cause.
func (w *storeError) Unwrap() error { return w.why }

// classifyFaults makes all stages distinguish a site's fault from a run's own.
func (c *Chains) classifyFaults(stages []chain.Stage[Onboarding]) []chain.Stage[Onboarding] {
	for i := range stages {
		s := &stages[i]
		s.Do, s.Undo = c.classifyFault(s.Do), c.classifyFault(s.Undo)
		if done := s.Done; done != nil {
			s.Done = func(ctx context.Context, r *run) (bool, error) {
				is, err := done(ctx, r)
				return is, c.judge(ctx, r, err)
			}
		}
		s.Rescue = c.classifyFaults(s.Rescue)
	}
	return stages
}

func (c *Chains) classifyFault(do func(context.Context, *run) error) func(context.Context, *run) error {
	if do == nil {
		return nil
	}
	return func(ctx context.Context, r *run) error { return c.judge(ctx, r, do(ctx, r)) }
}

// judge holds the site only if the site's own record, its token or its MAAS fails too. Any other
// fault is this run's.
func (c *Chains) judge(ctx context.Context, r *run, err error) error {
	why, ok := errors.AsType[*storeError](err)
	if !ok {
		return err
	}
	at, err := c.at(ctx, r)
	if _, ok := errors.AsType[*storeError](err); ok {
		return chain.Hold("%v", why)
	}
	if err != nil {
		return err
	}
	return at.regionFault(ctx, why)
}
