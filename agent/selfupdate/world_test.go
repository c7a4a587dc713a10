package selfupdate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// world is a node with a systemd, a broker and a clock of its own. The program in a slot is a text
// that says how its agent behaves:
//
//	VERSION fine | exits | hangs | silent | crashes-later | dies-late | dies-once | wakes | test-fails
//	damages WHAT: the ledger, and ends; damages-late: after the confirmation. See harm.
type world struct {
	*testing.T
	lib, state string
	clock      time.Time
	boot       int
	invocation int
	key        ed25519.PrivateKey
	keys       release.Keys

	store *Store
	// cut ends the world before the nth change of the disk; negative: never.
	cut, changes int
	last         string // the change that was not made

	agent *process // the running one
	watch bool     // the watcher was started
	// watches: the watcher runs. anew: the watcher must be started again when it ends.
	watches, anew bool
	// brokerDown reports whether the broker is unreachable at a time.
	brokerDown func(time.Time) bool
	ran        []string // versions that were started
	proof      time.Duration
	// wakes is when a program of kind wakes becomes ready. stopped: a person has stopped the agent.
	wakes   time.Time
	stopped bool
	// testFails makes a program's self-test fail; nil: the program's text decides.
	testFails func(version string) error
}

// errPowerCut ends the world.
var errPowerCut = errors.New("the power is gone")

// process is a running agent, or one that waits for its next start.
type process struct {
	version, behaviour string
	invocation         string
	since              time.Time
	ready, waits       bool
	restarts           int // by systemd itself
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		T: t, lib: filepath.Join(dir, "lib"), state: filepath.Join(dir, "state"), clock: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC),
		key: key, keys: release.Keys{"k1": pub}, cut: -1, proof: 5 * time.Second, brokerDown: func(time.Time) bool { return false },
	}
	w.put("lib/versions/1.0.0/hostler-agent", "1.0.0 fine")
	w.put("state/ledger.db", "a sound ledger")
	w.put("state/a.note", "a good note")
	for link, to := range map[string]string{packaged: "versions/1.0.0", current: "versions/1.0.0"} {
		if err := os.Symlink(to, filepath.Join(w.lib, link)); err != nil {
			t.Fatal(err)
		}
	}
	w.powerOn()
	return w
}

func (w *world) put(name, text string) {
	w.Helper()
	file := filepath.Join(filepath.Dir(w.lib), name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)); err != nil {
		w.Fatal(err)
	}
}

// powerOn starts the machine: the agent, and the watcher if there is a good slot.
func (w *world) powerOn() {
	w.Helper()
	w.boot++
	if w.store != nil {
		_ = w.store.Close()
	}
	var err error
	if w.store, err = OpenStore(w.lib, w.state, func() time.Time { return w.clock }); err != nil {
		w.Fatal(err)
	}
	w.store.step = func(what string) error {
		if w.cut >= 0 && w.changes >= w.cut {
			if w.changes == w.cut {
				w.last = what
				w.losePower(what)
			}
			w.changes++
			return errPowerCut
		}
		w.changes++
		return nil
	}
	w.agent, w.watch, w.stopped = nil, false, false
	w.launch()
	if _, err := os.Stat(filepath.Join(w.lib, good, program)); err == nil {
		w.watch = true
	}
}

// losePower leaves an unsynced file half written.
func (w *world) losePower(what string) {
	name, ok := strings.CutPrefix(what, "sync ")
	if !ok {
		return
	}
	for _, dir := range []string{w.lib, filepath.Join(w.state, "update"), w.state} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			if err := os.Truncate(filepath.Join(dir, name), info.Size()/2); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// launch starts the program of the slot current.
func (w *world) launch() {
	w.invocation++
	raw, err := os.ReadFile(filepath.Join(w.lib, current, program))
	if err != nil {
		w.Fatalf("there is no agent to start: %v", err)
	}
	version, behaviour, _ := strings.Cut(string(raw), " ")
	if ledger, err := os.ReadFile(filepath.Join(w.state, "ledger.db")); behaviour == "fine" && (err != nil || !strings.HasPrefix(string(ledger), "a sound ledger") || w.notes() != nil) {
		behaviour = "exits"
	}
	w.ran = append(w.ran, version)
	w.agent = &process{version: version, behaviour: behaviour, invocation: fmt.Sprint("i", w.invocation), since: w.clock}
}

// pass lets time pass for the agent.
func (w *world) pass(d time.Duration) {
	w.clock = w.clock.Add(d)
	a := w.agent
	if a == nil {
		return
	}
	age := w.clock.Sub(a.since)
	if a.waits {
		if age >= 5*time.Second {
			w.launch()
			w.agent.restarts = a.restarts + 1
		}
		return
	}
	behaviour, what, _ := strings.Cut(a.behaviour, " ")
	damages := behaviour == "damages" || behaviour == "damages-late" && age > 20*time.Second
	switch {
	case a.behaviour == "exits", a.behaviour == "crashes-later" && age > 3*time.Second, damages,
		a.behaviour == "dies-late" && age > 20*time.Second, a.behaviour == "dies-once" && age > 20*time.Second && a.restarts == 0:
		if damages && w.harm(what) {
			break
		}
		a.waits, a.ready, a.since = true, false, w.clock
		return
	case a.behaviour == "hangs", a.behaviour == "wakes" && w.clock.Before(w.wakes):
		return
	}
	a.ready = true
	if a.behaviour != "silent" && age >= time.Second && !w.brokerDown(w.clock) {
		if err := w.store.MarkContact(a.invocation, a.version); err != nil && !errors.Is(err, errPowerCut) && taskcatalog.CodeOf(err, "") != CodeStateInvalid {
			w.Errorf("contact: %v", err)
		}
	}
}

func (w *world) Restart(ctx context.Context, unit string) error {
	w.anew = w.anew || unit == WatchUnit && w.watches
	return w.Launch(ctx, unit)
}

func (w *world) Launch(_ context.Context, unit string) error {
	if w.dead() {
		return errPowerCut
	}
	if unit == WatchUnit {
		w.watch = w.watch || !w.watches
	} else if w.agent == nil && !w.stopped {
		w.launch()
	}
	return nil
}

func (w *world) Stop(context.Context, string) error {
	if w.dead() {
		return errPowerCut
	}
	w.agent = nil
	return nil
}

func (w *world) Look(context.Context, string) (Unit, error) {
	switch a := w.agent; {
	case w.dead():
		return Unit{}, errPowerCut
	case a == nil:
		return Unit{Active: "inactive", Sub: "dead", Invocation: fmt.Sprint("i", w.invocation)}, nil
	case a.waits:
		return Unit{Active: "activating", Sub: "auto-restart", Invocation: a.invocation, Restarts: a.restarts}, nil
	case !a.ready:
		return Unit{Active: "activating", Sub: "start", Invocation: a.invocation, Restarts: a.restarts}, nil
	default:
		return Unit{Active: "active", Sub: "running", Invocation: a.invocation, Restarts: a.restarts}, nil
	}
}

func (w *world) dead() bool { return w.cut >= 0 && w.changes > w.cut }

func (w *world) stager() *Stager {
	return &Stager{
		Store: w.store, StateDir: w.state, Parts: parts, Keys: func() release.Keys { return w.keys }, Forms: func() ([]int, error) { return []int{1}, nil },
		OS: "linux", Arch: "amd64", Progress: func(string, int, string) {},
		Test: func(_ context.Context, file string) (*SelfTest, error) {
			raw, err := os.ReadFile(file)
			version, behaviour, _ := strings.Cut(string(raw), " ")
			if behaviour == "test-fails" {
				return nil, errors.New("exit status 1")
			}
			if w.testFails != nil {
				if err := w.testFails(version); err != nil {
					return nil, err
				}
			}
			return &SelfTest{Version: version, State: release.State}, err
		},
	}
}

// published is an available release.
type published struct {
	*release.Artifact
	want Target
}

// publish makes a release and signs it.
func (w *world) publish(version, behaviour string, change ...func(*release.Statement)) published {
	w.Helper()
	s := release.Statement{
		Version: version, Commit: "abc123", OS: "linux", Arch: "amd64", StateSchema: release.State,
		Protocol: release.Protocol, BuiltAt: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, c := range change {
		c(&s)
	}
	a, err := release.Pack([]byte(version+" "+behaviour), s)
	if err != nil {
		w.Fatal(err)
	}
	return w.sign(version, a)
}

// sign publishes a packed artifact without checking it.
func (w *world) sign(version string, a *release.Artifact) published {
	w.Helper()
	payload, err := release.Payload(a.Digest, "registry/agent")
	if err != nil {
		w.Fatal(err)
	}
	return published{a, Target{
		Version: version, ID: "t-" + version, Source: shelf{a},
		Manifest:   release.Part{MediaType: release.MediaManifest, Digest: a.Digest, Size: int64(len(a.Manifest))},
		Signatures: []release.Signature{{Payload: payload, Signature: ed25519.Sign(w.key, payload)}},
	}}
}

// shelf is a source with the parts of a release.
type shelf struct{ *release.Artifact }

func (s shelf) Open(_ context.Context, part release.Part, offset int64) (io.ReadCloser, error) {
	for _, raw := range [][]byte{s.Manifest, s.Statement, s.Layer} {
		if release.Digest(raw) == part.Digest {
			return io.NopCloser(bytes.NewReader(raw[min(offset, int64(len(raw))):])), nil
		}
	}
	return nil, taskcatalog.Errorf(CodeSourceRefused, "not here")
}

// update does the same as a task: stage, then switch.
func (w *world) update(p published) error {
	ctx := w.Context()
	s := w.stager()
	staged, err := s.Stage(ctx, p.want)
	if err != nil {
		return err
	}
	running := w.store.Current()
	_, err = s.Arm(ctx, w, zap.NewNop(), Switch{
		ID: p.want.ID, Running: running, Version: w.agent.version, To: staged.Slot, Window: 5 * time.Minute, Contact: time.Second, Force: p.want.Force,
	})
	return err
}

// parts are the parts of the node's state. The id of a ledger is its text.
var parts = []Part{
	{Name: "what this node never had", Files: []string{"none.json"}, Check: func(string) error { return nil }},
	{Name: "ledger", Files: []string{"ledger.db"}, Check: func(dir string) error {
		raw, err := os.ReadFile(filepath.Join(dir, "ledger.db"))
		if err == nil && !strings.HasPrefix(string(raw), "a sound ledger") {
			err = errors.New("damaged")
		}
		return err
	}, ID: func(dir string) (string, error) {
		raw, err := os.ReadFile(filepath.Join(dir, "ledger.db"))
		return string(raw), err
	}},
	{Name: "notes", Files: []string{"*.note"}, Check: func(dir string) error {
		if _, err := os.Stat(filepath.Join(dir, "bad.note")); err == nil {
			return errors.New("there is a bad note")
		}
		return nil
	}},
}

// watcher is this boot's watcher. It gives up after a limit of turns.
func (w *world) watcher() *Watcher {
	w.Helper()
	if st, err := w.store.Load(); err == nil && st.Trial != nil {
		if to := w.store.linkTarget(good); to == st.Trial.To {
			w.Fatalf("the watcher runs from %s, which is on trial", to)
		}
	}
	return &Watcher{
		Store: w.store, StateDir: w.state, Systemd: w, BootID: fmt.Sprint("boot", w.boot), Log: zap.NewNop(),
		Parts: parts,
		Reach: func(context.Context, string) bool { return !w.brokerDown(w.clock) }, Proof: w.proof,
		Sleep: func(ctx context.Context, d time.Duration) error {
			if w.dead() {
				return errPowerCut
			}
			w.pass(d)
			return ctx.Err()
		},
	}
}

// settled runs the watcher to its end, and returns the outcome of the update.
func (w *world) settled() *taskcatalog.AgentDelivery {
	w.Helper()
	for w.anew = true; w.anew; {
		w.watches, w.anew = true, false
		if err := w.watcher().Run(w.Context()); err != nil && !w.dead() {
			w.Fatal(err)
		}
		if w.watches = false; w.dead() {
			return nil
		}
	}
	w.watch = false
	st, err := w.store.Load()
	if err != nil {
		w.Fatal(err)
	}
	return st.Last()
}
