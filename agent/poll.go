package agent

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// trialPause is the longest poll pause of a version on trial or in its proof. The version's watcher
// assumes that a reachable broker was asked within this time (see selfupdate's reachGrace); a loop
// that stands still twice as long counts as hung.
const trialPause = 90 * time.Second

var (
	errLaneFreed   = errors.New("a lane is free again")
	errIdleAnswers = taskcatalog.Errorf(uplink.CodeUnavailable,
		"the broker answers polls at once and without tasks; the agent polls more slowly")
)

// serve is the main loop: enrol, keep the certificate valid, take tasks.
func (a *Agent) serve(ctx, work context.Context) error {
	if a.state.Member() != nil {
		if err := a.state.Lock(); err != nil {
			return err
		}
		a.adoptMembership()
	}
	pause := uplink.NewPause()
	for ctx.Err() == nil && !a.ending.Load() {
		a.turns.Add(1)
		err := a.turn(ctx, work)
		a.turns.Add(1) // the turn may have been long, and the pause may be long as well
		if err == nil {
			pause.Reset()
			continue
		}
		if ctx.Err() != nil {
			break
		}
		wait := pause.After(err)
		if a.updateUnsettled() {
			wait = min(wait, trialPause)
		}
		a.recordFailure(err, wait)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	// The agent was uninstalled: the remover also stops the process.
	<-ctx.Done()
	return ctx.Err()
}

// turn does the next thing.
func (a *Agent) turn(ctx, work context.Context) error {
	m := a.state.Member()
	if m == nil {
		return a.enroll(ctx)
	}
	if err := a.settleRotation(ctx); err != nil {
		return err
	}
	if a.planned != a.state.Member().Cert.Leaf { // a task has changed the certificate
		a.planRenewal()
	}
	if !a.Now().Before(a.renewAt) {
		err := a.renew(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return err
		case a.state.Member().Expired(a.Now()) || refusedMember(err):
			a.renewAt = a.Now().Round(0)
			return a.handleRejection(ctx, err)
		default:
			a.Log.Warn("cannot renew the certificate; the agent tries again", zap.String("node", m.NodeID),
				zap.Time("until", m.Cert.Leaf.NotAfter), zap.Error(err))
		}
	}
	if a.carried != nil {
		a.takeCarried(ctx, work)
		return nil
	}
	m = a.state.Member()
	err := a.poll(ctx, work)
	switch {
	case err == nil:
		return nil
	case refusedMember(err) && a.state.Member() != m:
		return nil // the refused certificate is not the node's any more
	}
	return a.handleRejection(ctx, err)
}

// handleRejection handles a broker that does not accept the node as a member.
func (a *Agent) handleRejection(ctx context.Context, err error) error {
	if !refusedMember(err) {
		return err
	}
	if a.state.Rotating() != "" {
		return sleep(ctx, uplink.FirstPause) // the broker may have adopted the new key before this node
	}
	if r, ok := uplink.RefusalOf(err); ok && r.Code == pki.CodeCertificateExpired && a.Now().Before(a.renewAt) {
		a.renewAt = a.Now().Round(0) // renewal is due by the broker's clock
		return err
	}
	return a.rejoin(ctx, err)
}

// refusedMember reports whether the broker rejected this node's certificate, in HTTP or already in
// TLS.
func refusedMember(err error) bool {
	if r, ok := uplink.RefusalOf(err); ok {
		return r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden
	}
	return taskcatalog.CodeOf(err, "") == uplink.CodeRejected
}

// poll waits for tasks once and handles the answer.
func (a *Agent) poll(ctx, work context.Context) error {
	free := a.awaitLane(ctx)
	if ctx.Err() != nil || len(free) == 0 {
		return ctx.Err()
	}
	client, err := a.uplink()
	if err != nil {
		return err
	}
	begun, atOnce := a.Now(), a.onTrial() // a version on trial polls without waiting: its watcher waits for a contact
	reply, err := a.wait(ctx, client, free, atOnce)
	if errors.Is(err, errLaneFreed) {
		return nil
	}
	if err != nil {
		return err
	}
	a.contact(client)
	if !a.confirmed(ctx) || a.ending.Load() {
		return nil
	}
	for _, d := range reply.Tasks {
		a.deliver(work, d)
	}
	a.cancelTasks(reply.Cancel)
	if reply.Report {
		a.renewAt = a.Now().Round(0)
	}
	if len(reply.Tasks)+len(reply.Cancel) == 0 && !reply.Report && !atOnce && a.Now().Sub(begun) < time.Second {
		return errIdleAnswers // do not spin on a broker that does not hold the request
	}
	return nil
}

// wait is a single long poll. The poll ends early when a lane gets room and the request had not
// listed this lane. Tasks on their way at this moment are lost with the connection; their lease
// runs out and the broker delivers them again.
func (a *Agent) wait(ctx context.Context, client *uplink.Client, free []taskcatalog.Lane, atOnce bool) (*wire.WaitReply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if len(free) < lanesOfANode {
		done := make(chan struct{})
		defer close(done)
		go func() {
			select {
			case <-a.freed:
				cancel(errLaneFreed)
			case <-done:
			}
		}()
	}
	reply, err := client.Wait(ctx, free, atOnce)
	if err != nil && errors.Is(context.Cause(ctx), errLaneFreed) {
		return nil, errLaneFreed
	}
	return reply, err
}

// contact records a successful answer of the broker.
func (a *Agent) contact(client *uplink.Client) {
	skew := client.Skew()
	if skew.Abs() > taskcatalog.ClockSkew/2 {
		a.Log.Warn("this node's clock differs from the broker's; the node refuses tasks if the difference exceeds "+
			taskcatalog.ClockSkew.String(), zap.String("clock", uplink.Offset(a.Now(), a.Now().Add(skew))))
	}
	m := a.state.Member()
	a.publish(func(s *Status) {
		s.Phase, s.Problem, s.LastContact = PhaseConnected, nil, a.Now().UTC()
		s.ClockOffsetSeconds = skew.Seconds()
		s.NodeID, s.Epoch, s.Broker = m.NodeID, m.Epoch, a.brokerOf(m)
		s.CertificateUntil, s.TrustVersion = m.Cert.Leaf.NotAfter, m.Trust.Version
	})
	wake(a.results)
}

// recordFailure records a failure in the status, and logs it once for each pause.
func (a *Agent) recordFailure(err error, wait time.Duration) {
	problem := problemOf(err)
	phase := PhaseUnreachable
	switch {
	case a.state.Member() == nil:
		phase = PhaseEnrolling
	case refusedMember(err):
		phase = PhaseRefused
	}
	a.Log.Warn(problem.Message, zap.String("code", problem.Code), zap.Duration("again_in", wait.Round(time.Millisecond)))
	a.publish(func(s *Status) { s.Phase, s.Problem = phase, problem })
}
