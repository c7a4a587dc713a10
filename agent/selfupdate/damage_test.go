package selfupdate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
)

// harm applies a version's damage to the node's state, and returns whether the version runs on.
func (w *world) harm(what string) (runs bool) {
	what, runs = strings.CutSuffix(what, " and runs")
	update := filepath.Join(w.state, updateDir)
	switch what {
	case "":
		w.put("state/ledger.db", "")
	case "by another ledger":
		w.put("state/ledger.db", "a sound ledger, and another")
	case "by a note":
		w.put("state/bad.note", "bad")
	case "by a note and more":
		w.put("state/bad.note", "bad")
		w.put("state/ledger.db", "")
	case "updates":
		w.put("state/update/state.json", "garbage")
	case "updates, emptied":
		w.put("state/update/state.json", "{}")
	case "updates, gone":
		_ = os.Remove(filepath.Join(update, stateFile))
	case "updates, a folder":
		if info, err := os.Stat(filepath.Join(update, stateFile)); err == nil && !info.IsDir() {
			if err := errors.Join(os.Remove(filepath.Join(update, stateFile)), os.Mkdir(filepath.Join(update, stateFile), 0o700)); err != nil {
				w.Error(err)
			}
		}
	case "updates, a newer form":
		w.put("state/update/state.json", `{"form":2}`)
	case "updates and what is kept":
		w.put("state/update/state.json", "garbage")
		w.put("state/update/"+keptFile, "garbage")
	default:
		w.Errorf("a version damages %q", what)
	}
	return runs
}

// notes checks a part of the state that is unusable while the file bad.note exists.
func (w *world) notes() error {
	if _, err := os.Stat(filepath.Join(w.state, "bad.note")); err == nil {
		return errors.New("there is a bad note")
	}
	return nil
}

// hook calls do after each pause of a watcher, before the watcher looks.
func (w *world) hook(watcher *Watcher, do func()) {
	sleep := watcher.Sleep
	watcher.Sleep = func(ctx context.Context, d time.Duration) error {
		err := sleep(ctx, d)
		do()
		return err
	}
}

// after runs a watcher to its end, and calls do after each of its pauses.
func (w *world) after(watcher *Watcher, do func()) *taskcatalog.AgentDelivery {
	w.Helper()
	w.hook(watcher, do)
	if err := watcher.Run(w.Context()); err != nil {
		w.Fatal(err)
	}
	st, err := w.store.Load()
	if err != nil {
		w.Fatal(err)
	}
	return st.Last()
}

// A version that spoils the update's record takes no task meanwhile, whatever the damage. The
// damaged record is kept for an operator.
func TestAVersionThatDamagesWhatWasDecidedTakesNoTask(t *testing.T) {
	for what, found := range map[string]string{
		"updates": "garbage", "updates, emptied": "{}", "updates, gone": "", "updates, a newer form": `{"form":2}`, "updates and what is kept": "garbage",
	} {
		w := newWorld(t)
		w.arm("damages " + what + " and runs")
		watched := false
		d := w.after(w.watcher(), func() {
			if watched || w.agent == nil || w.agent.version != "1.1.0" || !w.agent.ready {
				return
			}
			watched = true
			if !w.store.Pending() {
				t.Errorf("%s: it takes tasks", what)
			}
			if err := (&Updater{Stager: *w.stager(), Systemd: w}).ResumeTrial(t.Context()); err != nil || !w.watch {
				t.Errorf("%s: nobody watches it: %v", what, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := (&Updater{Stager: *w.stager()}).Await(ctx, Task{ID: "t-1.1.0"}); !errors.Is(err, ErrUndecided) {
				t.Errorf("%s: its task is told as %v", what, err)
			}
			if err := w.watcher().Probe(); err != nil {
				t.Errorf("%s: the watcher does not come up: %v", what, err)
			}
		})
		raw, err := os.ReadFile(filepath.Join(w.state, updateDir, damagedFile))
		if string(raw) != found || (err == nil) != (found != "") {
			t.Errorf("%s: %q is kept of it, %v", what, raw, err)
		}
		if !watched || d == nil || d.Outcome != taskcatalog.UpdateRolledBack || d.Reason != CodeStateDamaged || d.From != "1.0.0" || d.To != "1.1.0" || w.agent.version != "1.0.0" || w.store.Pending() {
			t.Errorf("%s: %+v; %+v runs", what, d, w.agent)
		}
		if st, err := w.store.Load(); err != nil || st.Pinned("1.1.0") == nil || st.Good != "1.0.0" || len(st.Deliveries) != 1 {
			t.Errorf("%s: %+v %v", what, st, err)
		}
	}
}

// A confirmed version may write a newer form; this is not held against it. Other damage counts as
// before.
func TestAConfirmedVersionMayWriteANewerForm(t *testing.T) {
	for what, puts := range map[string]bool{"updates, a newer form": false, "updates": true, "updates, emptied": true, "updates, gone": true} {
		w := newWorld(t)
		w.proof = DefaultProof
		w.arm("damages-late " + what + " and runs")
		mine, lost := parts[1], 0
		mine.Lost = func(string, time.Time) error { lost++; return nil }
		watcher := w.watcher()
		watcher.Parts = []Part{mine}
		w.hook(watcher, func() {
			if w.agent != nil && w.agent.version == "1.1.0" && w.clock.Sub(w.agent.since) > 20*time.Second {
				w.put("state/ledger.db", "") // its record of tasks is lost as well
			}
		})
		err := watcher.Run(t.Context())
		if !puts {
			if taskcatalog.CodeOf(err, "") != CodeStateInvalid || w.agent.version != "1.1.0" || w.store.Pending() {
				t.Errorf("%s: %v; %+v runs", what, err, w.agent)
			}
			continue
		}
		st, failed := w.store.Load()
		if err != nil || failed != nil {
			t.Fatalf("%s: %v %v", what, err, failed)
		}
		if d := st.Last(); d == nil || d.ID != "t-1.1.0" || d.Outcome != taskcatalog.UpdateRolledBack || len(st.Deliveries) != 1 || lost != 1 || w.agent.version != "1.0.0" {
			t.Errorf("%s: %+v, said %d times that it forgot; %+v runs", what, st, lost, w.agent)
		}
	}
}

// Without a trial, an unreadable state is not held against the running version.
func TestADamagedStateWithoutATrialLeavesWhatRuns(t *testing.T) {
	w := newWorld(t)
	w.arm("fine")
	w.settled()
	w.put("state/update/state.json", "garbage")
	if err := w.watcher().Run(t.Context()); taskcatalog.CodeOf(err, "") != CodeStateInvalid || w.store.Pending() || w.agent.version != "1.1.0" {
		t.Errorf("%v; %+v runs", err, w.agent)
	}
	if raw, err := os.ReadFile(filepath.Join(w.state, updateDir, stateFile)); err != nil || string(raw) != "garbage" {
		t.Errorf("%q %v", raw, err)
	}
}

// Nothing readable is left, and power fails at each later change of the disk. In the end the
// version known to work runs, and a delivery says that another version was reverted.
func TestALossOfPowerWhileTheStateIsMadeAnew(t *testing.T) {
	for cut := 0; ; cut++ {
		w := newWorld(t)
		w.arm("damages updates and what is kept")
		harmed := func() bool {
			raw, err := os.ReadFile(filepath.Join(w.state, updateDir, keptFile))
			return err == nil && string(raw) == "garbage"
		}
		watcher := w.watcher()
		w.hook(watcher, func() {
			if w.cut < 0 && harmed() {
				w.cut, w.changes = cut, 0
			}
		})
		_ = watcher.Run(t.Context())
		ended := !w.dead()
		w.cut = -1
		w.powerOn()
		w.pass(time.Second)
		d := w.settled()
		st, err := w.store.Load()
		if err != nil || st.Trial != nil || d == nil || d.Reason != CodeStateDamaged || d.Outcome != taskcatalog.UpdateRolledBack || w.agent.version != "1.0.0" || st.Pinned("1.1.0") == nil {
			t.Fatalf("the power went before %q (change %d): %+v %v; %+v runs", w.last, cut, st, err, w.agent)
		}
		_ = w.store.Close()
		if ended {
			if cut < 8 {
				t.Errorf("only %d changes", cut)
			}
			return
		}
	}
}

// The first restore fails, and an agent creates a new ledger meanwhile. This ledger is not the
// node's own, and is replaced.
func TestALedgerThatWasMadeMeanwhileIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.arm("damages")
	failed := w.failing(2, func(what string) bool { return what == "sync ledger.db.new" })
	d := w.between(nil, func() {
		if *failed > 0 && w.agent != nil && w.agent.version == "1.0.0" {
			if raw, err := os.ReadFile(filepath.Join(w.state, "ledger.db")); err == nil && len(raw) == 0 {
				w.put("state/ledger.db", "a sound ledger, made anew")
			}
		}
	})
	if raw, err := os.ReadFile(filepath.Join(w.state, "ledger.db")); *failed != 2 || d == nil || err != nil || string(raw) != "a sound ledger" {
		t.Errorf("%d failures; %+v; %q %v", *failed, d, raw, err)
	}
}

// A ledger that got its id only after the copy was made counts as the same ledger.
func TestALedgerThatHadNoNameIsNoOther(t *testing.T) {
	w := newWorld(t)
	w.arm("exits")
	mine := parts[1]
	mine.ID = func(dir string) (string, error) {
		if dir == BeforeDir(w.state) {
			return "", nil
		}
		return "named since", nil
	}
	watcher := w.watcher()
	watcher.Parts = []Part{mine}
	if err := watcher.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := w.store.Load(); err != nil || st.Last() == nil || strings.Contains(st.Last().Message, "was restored") {
		t.Errorf("%+v %v", st, err)
	}
}

// A part that was unusable before the switch is left as it is: the copy would not help.
func TestAPartThatWasDamagedBeforeKeepsNothingFromBeingPutBack(t *testing.T) {
	w := newWorld(t)
	w.put("state/bad.note", "bad")
	w.put("lib/versions/1.0.0/hostler-agent", "1.0.0 wakes") // runs all the same
	w.arm("exits")
	d := w.settled()
	if _, err := os.Stat(filepath.Join(w.state, "bad.note")); err != nil || d == nil || d.Outcome != taskcatalog.UpdateRolledBack || strings.Contains(d.Message, "notes") {
		t.Errorf("%+v, %v", d, err)
	}
}

// The watcher does not start and the disk refuses writes: the task's result matches the actual
// outcome.
func TestATrialThatCannotBeTakenBackIsNotRefused(t *testing.T) {
	for _, c := range []struct {
		written bool // the write was made, but reported as failed
		outcome taskcatalog.UpdateOutcome
	}{{false, taskcatalog.UpdateConfirmed}, {true, ""}} {
		w := newWorld(t)
		p := w.publish("1.1.0", "fine")
		if _, err := w.stager().Stage(t.Context(), p.want); err != nil {
			t.Fatal(err)
		}
		step := w.store.step
		u := &Updater{Stager: *w.stager(), Log: zap.NewNop(), Running: "1.0.0", Version: "1.0.0", Contact: func() time.Duration { return time.Second }}
		u.Systemd = refuses{w, func() {
			w.store.step = func(what string) error {
				if what == "rename state.json" && c.written {
					// The folder could not be synced.
					return errors.Join(os.Rename(filepath.Join(w.state, updateDir, stateFile+temporary), filepath.Join(w.state, updateDir, stateFile)), errors.New("input/output error"))
				}
				if what == "write state.json.new" && !c.written {
					return errors.New("read-only file system")
				}
				return step(what)
			}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		waits := false
		u.Progress = func(step string, _ int, _ string) {
			if step == "confirm" {
				waits = true
				cancel()
			}
		}
		task := Task{ID: "t-9", Params: &taskcatalog.SelfUpdateParams{Phase: taskcatalog.PhaseActivate, Version: "1.1.0"}, Began: w.clock}
		res, err := u.Do(ctx, task)
		cancel()
		w.store.step = step
		st, failed := w.store.Load()
		if failed != nil {
			t.Fatal(failed)
		}
		if c.written {
			if taskcatalog.CodeOf(err, "") != taskcatalog.CodeInterrupted || st.Trial != nil {
				t.Errorf("it was taken back: %+v %v", res, err)
			}
			continue
		}
		if !waits || res != nil || !errors.Is(err, ErrUndecided) || st.Trial == nil {
			t.Errorf("the trial stands, and the task says %+v %v", res, err)
		}
		w.settled()
		u.Systemd = w
		if res, err := u.Await(t.Context(), task); err != nil || res.Outcome != c.outcome || w.agent.version != "1.1.0" {
			t.Errorf("%+v %v; %+v runs", res, err, w.agent)
		}
	}
}

// refuses is a systemd that does not start the watcher.
type refuses struct {
	*world
	first func()
}

func (r refuses) Restart(context.Context, string) error {
	r.first()
	return errors.New("the job failed")
}

// A version that fills the disk and ends is reverted: the space for this was reserved.
func TestAVersionThatFillsTheDiskIsPutBack(t *testing.T) {
	for behaviour, code := range map[string]taskcatalog.Code{"exits": CodeCrashLoop, "damages updates and runs": CodeStateDamaged} {
		w := newWorld(t)
		w.arm(behaviour)
		step, began, used := w.store.step, w.clock, int64(0)
		w.store.step = func(what string) error {
			info, err := os.Stat(filepath.Join(w.state, updateDir, ballastFile))
			if err == nil && slices.Contains(w.ran, "1.1.0") && strings.HasPrefix(what, "write ") {
				// The version takes the freed space as soon as something was written.
				if free := (ballastSize - info.Size()) / ballastPiece; used >= free {
					return syscall.ENOSPC
				}
				used++
			}
			return step(what)
		}
		d := w.between(nil, func() {
			if w.clock.Sub(began) > time.Minute {
				t.Fatalf("%s: it runs on", behaviour)
			}
		})
		if d == nil || d.Outcome != taskcatalog.UpdateRolledBack || d.Reason != code || w.agent.version != "1.0.0" || used == 0 {
			t.Errorf("%s: %+v after %d writes; %+v runs", behaviour, d, used, w.agent)
		}
		t.Logf("%s: %d writes", behaviour, used)
		if _, err := os.Stat(filepath.Join(w.state, updateDir, ballastFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: what was kept for it is still there: %v", behaviour, err)
		}
	}
}
