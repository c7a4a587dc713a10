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

// trialPause is the longest of a version on trial, or in its proof: its watcher believes
// that a broker which answers has been asked by then (see selfupdate's reachGrace), and
// what stands still for twice as long hangs.
const trialPause = 90 * time.Second

var (
	errLaneFreed = errors.New("a lane has room again")
	errHasty     = taskcatalog.Errorf(uplink.CodeUnavailable, "the broker answers at once with nothing")
)

// serve is the main loop: be a member, stay one, take tasks.
func (a *Agent) serve(ctx, work context.Context) error {
	if a.state.Member() != nil {
		if err := a.state.Lock(); err != nil {
			return err
		}
		a.joined()
	}
	pause := uplink.NewPause()
	for ctx.Err() == nil && !a.ending.Load() {
		a.turns.Add(1)
		err := a.turn(ctx, work)
		a.turns.Add(1) // it may have been long, and so may the pause be
		if err == nil {
			pause.Reset()
			continue
		}
		if ctx.Err() != nil {
			break
		}
		wait := pause.After(err)
		if a.tried() {
			wait = min(wait, trialPause)
		}
		a.troubled(err, wait)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	// Uninstalled: whoever removes the agent stops it too.
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
	if a.planned != a.state.Member().Cert.Leaf { // a task has changed it
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
			return a.outcast(ctx, err)
		default:
			a.Log.Warn("cannot renew the certificate yet", zap.String("node", m.NodeID), zap.Time("until", m.Cert.Leaf.NotAfter), zap.Error(err))
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
		return nil // what was refused is not the node's any more
	}
	return a.outcast(ctx, err)
}

// outcast deals with a broker that does not take the node for a member.
func (a *Agent) outcast(ctx context.Context, err error) error {
	if !refusedMember(err) {
		return err
	}
	if a.state.Rotating() != "" {
		return sleep(ctx, uplink.FirstPause) // it may have heard the new key before this node knows
	}
	if r, ok := uplink.RefusalOf(err); ok && r.Code == pki.CodeCertificateExpired && a.Now().Before(a.renewAt) {
		a.renewAt = a.Now().Round(0) // by the broker's clock it is time
		return err
	}
	return a.rejoin(ctx, err)
}

// refusedMember reports whether the broker answered that this certificate is
// none, in HTTP or already in TLS.
func refusedMember(err error) bool {
	if r, ok := uplink.RefusalOf(err); ok {
		return r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden
	}
	return taskcatalog.CodeOf(err, "") == uplink.CodeRejected
}

// poll waits for tasks once and takes what came.
func (a *Agent) poll(ctx, work context.Context) error {
	free := a.awaitLane(ctx)
	if ctx.Err() != nil || len(free) == 0 {
		return ctx.Err()
	}
	client, err := a.uplink()
	if err != nil {
		return err
	}
	begun, atOnce := a.Now(), a.onTrial() // its watcher waits to see that it is heard
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
		return errHasty // do not spin on a broker that does not hold the request
	}
	return nil
}

// wait is one long poll. It ends early when a lane gets room that the broker was
// not told of. What is on its way at that moment is lost with the connection; its
// lease runs out and it is delivered again.
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

// contact notes that the broker answered as it should.
func (a *Agent) contact(client *uplink.Client) {
	skew := client.Skew()
	if skew.Abs() > taskcatalog.ClockSkew/2 {
		a.Log.Warn("this node's clock is off; tasks are refused beyond "+taskcatalog.ClockSkew.String(), zap.String("clock", uplink.Offset(a.Now(), a.Now().Add(skew))))
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

// troubled says what is wrong, once in the log for each pause.
func (a *Agent) troubled(err error, wait time.Duration) {
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
