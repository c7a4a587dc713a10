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

// The classes that these stages fail with.
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

// How long until a stage looks again.
const (
	next      = time.Second // a region that says yes and does nothing is not asked in a loop
	soon      = 5 * time.Second
	lookAgain = 15 * time.Second
	settle    = 30 * time.Second // a call may still be carried out of which no answer came
	late      = 3 * time.Minute  // and then it is not any more: MAAS tries a request again for 90 s, and one waits behind long lists
)

// unseen is what becomes of a step that could not look: no attempt is spent on
// that, and where nothing of the site answers, it is held.
func (at *place) unseen(ctx context.Context, err error) error {
	switch maas.ClassOf(err) {
	case maas.NotFound:
		return chain.Fail(ambiguity, "machine %s is not in MAAS any more: somebody deleted it", at.state.SystemID).With("machine_gone", nil)
	case maas.Unauthorized, maas.ClockSkew:
		return chain.Hold("%v", err)
	case maas.ConflictRetry:
		return chain.AgainFor(transient, max(retryAfter(err), soon), "%v", err)
	case maas.Unavailable, maas.Timeout, maas.UnknownOutcome:
		return at.away(ctx, err)
	case maas.Forbidden:
		return at.forbidden(ctx, err)
	}
	return chain.Fail(transient, "%w", err)
}

// away asks whether it is the whole region that does not answer, or only this.
func (at *place) away(ctx context.Context, why error) error {
	if _, err := at.region.Identify(ctx); err != nil {
		return chain.Hold("%v", err)
	}
	at.run.Reached()
	return chain.AgainFor(transient, lookAgain, "%v", why)
}

// forbidden asks whether the key is an administrator's. Where it is, the machine
// was locked just now: the next look tells.
func (at *place) forbidden(ctx context.Context, why error) error {
	id, err := at.region.Identify(ctx)
	switch {
	case err != nil:
		return chain.Hold("%v", err)
	case !id.Admin:
		return chain.Hold("%v: the token is of %s, who is no administrator", why, id.User)
	}
	return chain.Again(lookAgain, "%v", why)
}

// undone is what becomes of a step whose change of a record was not taken, or of
// which nobody knows whether it was. It is never repeated from here: the stage
// looks again, and decides by what it sees.
func (at *place) undone(ctx context.Context, err error) error {
	at.unheard(err)
	switch maas.ClassOf(err) {
	case maas.UnknownOutcome:
		return chain.AgainFor(transient, settle, "%v: looking what came of it", err)
	case maas.RefusedState:
		return chain.AgainFor(transient, soon, "%v", err)
	case maas.Invalid:
		return refused(err)
	}
	return at.unseen(ctx, err)
}

// unheard notes when nobody knows whether MAAS will still carry something out: by
// the clock of all brokers, as another may be the one that waits.
func (at *place) unheard(err error) {
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

// unsure reports whether MAAS may still carry out a change that was asked for: no
// answer came of it, or the broker has died that asked, or was cut off. While that is
// so nothing is taken back, neither is a machine let go that looks as if it were: what
// came late would meet one that is nobody's by then, or somebody else's.
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

func (at *place) stillUnsure() error {
	return chain.Again(settle, "machine is %s; MAAS may still carry out what no answer came of", taskcatalog.Clean(at.StatusName, 64))
}

// unswitched is undone for what switches a machine's power: that MAAS could not is
// a failure of the BMC's, and spends an attempt.
func (at *place) unswitched(ctx context.Context, err error) error {
	var e *maas.Error
	if !errors.As(err, &e) || e.Class != maas.UnknownOutcome && e.Class != maas.Unavailable {
		return at.undone(ctx, err)
	}
	if e.Status == http.StatusServiceUnavailable && e.RetryAfter == 0 && e.Detail != "" {
		// MAAS's own words. It has put the status back, or will tell otherwise.
		return at.failedOr(ctx, bmcFailure, err)
	}
	at.unheard(err)
	switch {
	case e.Class == maas.Unavailable:
		return at.away(ctx, err)
	case e.Status == 0, e.Status == http.StatusBadGateway, e.Status == http.StatusGatewayTimeout:
		// No word of MAAS's: it may be at it, and then nothing has failed.
		return chain.AgainFor(transient, settle, "%v: looking what came of it", err)
	}
	return at.failedOr(ctx, transient, err)
}

// failedOr is the failure of a change that MAAS says it could not make, if the
// machine's status bears that out: what was carried out all the same has not failed.
func (at *place) failedOr(ctx context.Context, class chain.Class, err error) error {
	before := at.Status
	if unseen := at.look(ctx); unseen != nil {
		return unseen
	}
	if at.Status != before {
		return chain.AgainFor(class, next, "%v: and yet it is %s", err, taskcatalog.Clean(at.StatusName, 64))
	}
	return chain.Fail(class, "%w: looking what came of it", err)
}

func retryAfter(err error) time.Duration {
	var e *maas.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// ours is what becomes of a step that the broker's own records, or the secrets,
// failed.
func ours(err error) error {
	var e *broker.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == CodeHardwareMismatch:
		return chain.Fail(mismatch, "%w", err).With(e.Code, nil)
	case e.Kind == broker.Unavailable:
		return &withheld{e}
	case e.Kind == broker.Invalid || e.Kind == broker.NotFound || e.Kind == broker.Refused:
		return chain.Fail(inputError, "%w", err).With(e.Code, nil)
	}
	return err
}

// withheld is what a step could not have of the broker's own: it may be the whole
// site's trouble, or this run's.
type withheld struct{ why *broker.Error }

func (w *withheld) Error() string { return w.why.Message }

// Unwrap is what was said.
func (w *withheld) Unwrap() error { return w.why }

// judged has all stages tell a site's trouble from a run's own.
func (l *Lifecycle) judged(stages []chain.Stage[Onboarding]) []chain.Stage[Onboarding] {
	for i := range stages {
		s := &stages[i]
		s.Do, s.Undo = l.judging(s.Do), l.judging(s.Undo)
		if done := s.Done; done != nil {
			s.Done = func(ctx context.Context, r *run) (bool, error) {
				is, err := done(ctx, r)
				return is, l.judge(ctx, r, err)
			}
		}
		s.Rescue = l.judged(s.Rescue)
	}
	return stages
}

func (l *Lifecycle) judging(do func(context.Context, *run) error) func(context.Context, *run) error {
	if do == nil {
		return nil
	}
	return func(ctx context.Context, r *run) error { return l.judge(ctx, r, do(ctx, r)) }
}

// judge holds the site only if what is the site's own cannot be had either: its
// record, its token, and MAAS by it. All else is this run's.
func (l *Lifecycle) judge(ctx context.Context, r *run, err error) error {
	why, ok := errors.AsType[*withheld](err)
	if !ok {
		return err
	}
	at, err := l.at(ctx, r)
	if _, ok := errors.AsType[*withheld](err); ok {
		return chain.Hold("%v", why)
	}
	if err != nil {
		return err
	}
	return at.away(ctx, why)
}
