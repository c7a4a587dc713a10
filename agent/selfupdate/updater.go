package selfupdate

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// ErrUndecided says that a task has no result yet: the next start of an agent learns the outcome
// from the watcher.
var ErrUndecided = errors.New("the update continues without this agent")

// Updater carries out node.self_update.
type Updater struct {
	Stager
	Systemd Systemd
	Log     *zap.Logger
	// Running is the slot of this program, "" if it runs from no slot. Version is its version.
	Running, Version string
	// Contact is the time since the broker last answered; negative: never.
	Contact func() time.Duration
	// Broker is the broker's package endpoint.
	Broker Source
}

// Task is a node.self_update task.
type Task struct {
	ID     string
	Params *taskcatalog.SelfUpdateParams
	Began  time.Time
	Mint   func(ctx context.Context, credentialType string) ([]byte, error)
}

// Do carries out a task up to the moment when the watcher takes over: then the error is
// ErrUndecided. A refusal has a result as well.
func (u *Updater) Do(ctx context.Context, t Task) (*taskcatalog.SelfUpdateResult, error) {
	res := &taskcatalog.SelfUpdateResult{
		Phase: t.Params.Phase, FromVersion: u.Version, ToVersion: t.Params.Version,
		Outcome: taskcatalog.UpdateRefused,
	}
	err := u.do(ctx, t, res)
	if errors.Is(err, ErrUndecided) && ctx.Err() == nil {
		return u.Await(ctx, t) // the watcher does not run, and the armed trial stands
	}
	if errors.Is(err, ErrUndecided) {
		return nil, err
	}
	if err != nil {
		res.Reason = taskcatalog.CodeOf(err, taskcatalog.CodeHandlerFailed)
	}
	return u.finish(res, t.Began), err
}

func (u *Updater) do(ctx context.Context, t Task, res *taskcatalog.SelfUpdateResult) error {
	p := t.Params
	if (p.AllowRollback || p.Force) && p.Reason == "" {
		return taskcatalog.Errorf(CodeNoReason, "cannot update the agent: allow_rollback and force need a reason")
	}
	floor := p.Floor
	if p.AllowRollback {
		floor = ""
	}
	slot := ""
	if p.Phase == taskcatalog.PhaseStage || p.Phase == taskcatalog.PhaseUpdate {
		staged, err := u.fetch(ctx, t, floor)
		if err != nil {
			return err
		}
		slot, res.BytesFetched, res.Already = staged.Slot, staged.Fetched, staged.Already
		if p.Phase == taskcatalog.PhaseStage {
			res.Outcome = taskcatalog.UpdateStaged
			return nil
		}
	}
	if p.Phase == taskcatalog.PhaseActivate && p.Version == "" {
		return taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot activate: the task names no version")
	}
	u.Progress("switch", 0, "")
	already, err := u.Arm(ctx, u.Systemd, u.Log, Switch{
		ID: t.ID, Running: u.Running, Version: u.Version, To: slot, ToVersion: p.Version,
		Window: time.Duration(p.ConfirmWindowSeconds) * time.Second, AwaitContact: u.heard, Floor: floor, Force: p.Force,
	})
	if err != nil {
		return err
	}
	if already {
		res.Outcome, res.Already = taskcatalog.UpdateConfirmed, true
		return nil
	}
	<-ctx.Done() // the watcher stops this agent
	return ErrUndecided
}

// heard waits until the broker has answered this version just now, with the patience of a fetch.
// Without such an answer the silence of the version on trial would prove nothing, and a version
// that cannot reach the broker would stay for ever.
func (u *Updater) heard(ctx context.Context) (time.Duration, error) {
	beat := time.NewTicker(awaitTick)
	defer beat.Stop()
	for waited := time.Duration(0); ; waited += awaitTick {
		since := u.Contact()
		if since >= 0 && since <= freshContact {
			return since, nil
		}
		if waited >= patience {
			return 0,
				taskcatalog.Errorf(CodeNotHeard,
					"cannot switch the agent: the broker has not answered %s for %s, so the new version could not be judged by its contact with the broker (nothing was changed; try again)", u.Version, patience)
		}
		u.Progress("switch", 0, "waiting for the broker, which has not answered recently")
		select {
		case <-beat.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// fetch stages the release of a task. The minted credential is wiped afterwards.
func (u *Updater) fetch(ctx context.Context, t Task, floor string) (*Staged, error) {
	p := t.Params
	if p.Version == "" || p.Manifest == nil {
		return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot stage a release: the task names no version or no manifest")
	}
	source := u.Broker
	if p.Source != nil {
		credential, wipe, err := u.mint(ctx, t)
		if err != nil {
			return nil, err
		}
		defer wipe()
		if source, err = NewRegistry(*p.Source, credential); err != nil {
			return nil, err
		}
	}
	signatures := make([]release.Signature, len(p.Signatures))
	for i, s := range p.Signatures {
		signatures[i] = release.Signature(s)
	}
	return u.Stage(ctx, Target{
		Version: p.Version, Source: source, Signatures: signatures, Floor: floor, Force: p.Force, ID: t.ID,
		Manifest: release.Part{MediaType: release.MediaManifest, Digest: p.Manifest.Digest, Size: p.Manifest.Size},
	})
}

// mint gets the credential of a private registry, with the patience of a fetch: the broker, or the
// registry behind it, may be unreachable for a while. No error contains a part of the credential.
func (u *Updater) mint(ctx context.Context, t Task) (credential *taskcatalog.OCIPullCredential, wipe func(), err error) {
	if t.Params.Source.Credential == "" {
		return nil, func() {}, nil
	}
	var raw []byte
	err = retry(ctx, u.Store.now, new(int), func(ctx context.Context) (bool, error) {
		var err error
		raw, err = t.Mint(ctx, t.Params.Source.Credential)
		if r, ok := uplink.RefusalOf(err); ok && r.Permanent() {
			return false, permanentError{err}
		}
		if err != nil {
			u.Progress("fetch", 0, "no credential has arrived yet: "+err.Error())
		}
		return false, err
	})
	if err != nil {
		return nil, nil, err
	}
	defer clear(raw)
	credential = new(taskcatalog.OCIPullCredential)
	if json.Unmarshal(raw, credential) != nil || credential.Token == "" {
		return nil, nil, taskcatalog.Errorf(CodeSourceRefused,
			"cannot fetch the release: the credential that the broker minted is not of type %s", taskcatalog.CredentialOCIPull)
	}
	return credential, func() { *credential = taskcatalog.OCIPullCredential{} }, nil
}

func (u *Updater) finish(res *taskcatalog.SelfUpdateResult, began time.Time) *taskcatalog.SelfUpdateResult {
	res.Seconds = max(u.Store.now().Sub(began).Seconds(), 0)
	if st, err := u.Store.Load(); err == nil {
		res.Slots, _ = u.Store.Slots(st)
	}
	return res
}

// awaitTick is the interval of looking for the verdict.
const awaitTick = 250 * time.Millisecond

// Await returns the outcome of a task begun by an earlier start of an agent: the outcome recorded
// by the watcher, or an error that says that the task was interrupted before the switch.
func (u *Updater) Await(ctx context.Context, t Task) (*taskcatalog.SelfUpdateResult, error) {
	for {
		if u.Store.repairedState() == nil { // otherwise the watcher is about to record the outcome
			st, err := u.Store.Load()
			if err != nil {
				return nil, err
			}
			if d := st.Delivery(t.ID); d != nil {
				return u.verdict(t, d)
			}
			if st.Trial == nil || st.Trial.ID != t.ID {
				return nil, taskcatalog.Errorf(taskcatalog.CodeInterrupted,
					"the update was interrupted before the switch; nothing was switched, and %s runs (start the update again: the node keeps what it fetched)", u.Version)
			}
			u.Progress("confirm", 0, st.Trial.ToVersion+" is being watched")
		}
		wait := time.NewTimer(awaitTick)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, ErrUndecided
		}
	}
}

// verdict builds a task's result from the watcher's record.
func (u *Updater) verdict(t Task, d *taskcatalog.AgentDelivery) (*taskcatalog.SelfUpdateResult, error) {
	res := &taskcatalog.SelfUpdateResult{
		Phase: t.Params.Phase, FromVersion: d.From, ToVersion: d.To, Outcome: d.Outcome, Reason: d.Reason, SwitchSeconds: d.SwitchSeconds,
	}
	u.finish(res, t.Began)
	if d.Outcome == taskcatalog.UpdateConfirmed {
		return res, nil
	}
	return res, taskcatalog.Errorf(d.Reason, "version %s was rolled back, and %s runs again: %s", d.To, d.From, d.Message)
}

// Pending reports whether a version is on trial and not confirmed, or is being reverted, or has
// damaged the record: no task is taken meanwhile.
func (s *Store) Pending() bool {
	st, err := s.Load()
	return s.repairedState() != nil || err == nil && st.unsettled()
}

// Unsettled reports whether there is a trial in any step, the proof included.
func (s *Store) Unsettled() bool {
	st, err := s.Load()
	return err == nil && st.Trial != nil
}

// ResumeTrial starts the watcher for a trial left by a crash or a loss of power.
func (u *Updater) ResumeTrial(ctx context.Context) error {
	st, err := u.Store.Load()
	if u.Store.repairedState() == nil && (err != nil || st.Trial == nil) {
		return nil // the caller that needs the state reports the error
	}
	return u.Systemd.Launch(ctx, WatchUnit)
}
