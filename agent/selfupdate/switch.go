package selfupdate

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
)

// begin makes the switch. Each part may have been done before a crash.
func (w *Watcher) begin(ctx context.Context, t *Trial) error {
	w.Log.Info("switching the agent", zap.String("from", t.FromVersion), zap.String("to", t.ToVersion), zap.String("delivery", t.ID))
	s, began := w.Store, w.Store.now().UTC()
	was := s.Current()
	if was == "" || was == t.To {
		was = s.revertTarget(t)
	}
	if err := w.stop(ctx); err != nil {
		return w.backOut(ctx, was, err)
	}
	if s.Current() != t.To { // otherwise the new version may have run already
		err := w.keepBefore()
		if err == nil {
			err = w.keepState(t, began)
		}
		if err == nil {
			err = s.reserve()
		}
		if err == nil {
			err = s.switchTo(t.To)
		}
		if err != nil {
			return w.giveUp(ctx, t, was, began, err)
		}
	}
	err := w.change(t, func(t *Trial) { w.switched(t, began) })
	if !w.isAt(t, Watching) { // the write failed, or another process changed the trial
		return w.backOut(ctx, was, err)
	}
	return errors.Join(err, w.launch(ctx))
}

// switched sets the step that follows a switch.
func (w *Watcher) switched(t *Trial, began time.Time) {
	t.Step, t.BootID, t.SwitchedAt, t.Over = Watching, w.BootID, began, nil
}

// backOut starts the previous version again, if the switch was not made or cannot be recorded.
func (w *Watcher) backOut(ctx context.Context, was string, why error) error {
	return errors.Join(why, w.Store.switchTo(was), w.launch(ctx))
}

// giveUp keeps the version that ran, if the switch cannot be made. Nothing has changed: a version
// in its proof is not reverted for this, and its proof goes on.
func (w *Watcher) giveUp(ctx context.Context, t *Trial, was string, began time.Time, why error) error {
	w.Log.Error("cannot switch the agent", zap.Error(why))
	code := CodeNotSwitched
	if isFull(why) {
		code = CodeNoSpace
	}
	return w.backOut(ctx, was, w.change(t, func(t *Trial) {
		t.Step, t.Reason, t.Message, t.FailedAt = Reverting, code, taskcatalog.Clean("the switch could not be made: "+why.Error(),
			taskcatalog.MaxText), began
		if t.Over != nil && t.Over.To == was {
			t.From, t.FromVersion = was, t.Over.ToVersion
		}
	}))
}

// stop stops the agent, and launch starts it. A watcher that is asked to stop between the two still
// calls launch. If systemd does not answer, the watcher tries again.
func (w *Watcher) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobTime)
	defer cancel()
	return w.Systemd.Stop(ctx, AgentUnit)
}

func (w *Watcher) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobTime)
	defer cancel()
	return w.Systemd.Launch(ctx, AgentUnit)
}
