package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostler/hostler/agent/agenttest"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// units is a systemd whose agent runs in this process, as the version in the slot named by the link
// current. The program in a slot is a text: its version, and fine, exits or dies-once.
type units struct {
	*lab
	lib, stateDir string

	mu         sync.Mutex
	agent      *process
	watching   bool
	invocation int
	failing    bool // the program ends at once
	ran        []string
	// dies is the boundary at which the first start of a new version is killed.
	dies string
	// beforeWatch is called when the watcher is started.
	beforeWatch func()
	watchers    sync.WaitGroup
	endWatch    func() // asks the watcher to stop
	watchEnded  chan struct{}
}

func newUnits(l *lab) *units {
	u := &units{lab: l, lib: filepath.Join(l.t.TempDir(), "lib"), stateDir: l.config.StateDir, beforeWatch: func() {}}
	dir := filepath.Join(u.lib, "versions", "1.0.0")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "hostler-agent"), []byte("1.0.0 fine"), 0o755),
		os.Symlink("versions/1.0.0", filepath.Join(u.lib, "packaged")), os.Symlink("versions/1.0.0", filepath.Join(u.lib, "current"))); err != nil {
		l.t.Fatal(err)
	}
	handler, _ := tasks.Lookup("node.self_update", 1)
	l.handle("node.self_update@1", handler)
	return u
}

func (u *units) open() *selfupdate.Store {
	store, err := selfupdate.OpenStore(u.lib, u.stateDir, time.Now)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = store.Close() })
	return store
}

// program returns the content of a slot's program.
func program(file string) (version, behaviour string) {
	raw, _ := os.ReadFile(file)
	version, behaviour, _ = strings.Cut(string(raw), " ")
	return version, behaviour
}

// launch starts the agent; u.mu must be held.
func (u *units) launch() {
	u.invocation++
	version, behaviour := program(filepath.Join(u.lib, "current", "hostler-agent"))
	u.ran = append(u.ran, version)
	if u.failing = behaviour == "exits"; u.failing {
		return
	}
	config := u.config
	u.config.Version = version
	u.config.Build = taskcatalog.AgentBuild{Commit: "c-" + version}
	u.config.Updates = &Updates{
		Store: u.open(), Systemd: u, Running: version, Invocation: fmt.Sprint("i", u.invocation),
		Test: func(_ context.Context, file string) (*selfupdate.SelfTest, error) {
			v, _ := program(file)
			return &selfupdate.SelfTest{Version: v, State: release.State}, nil
		},
	}
	dies := u.dies
	if version == "1.0.0" {
		dies = ""
	}
	u.agent = u.start(func(p *process) {
		p.at = func(boundary, _ string) {
			if dies != "" && boundary == dies {
				u.mu.Lock()
				u.dies = ""
				u.mu.Unlock()
				dies = ""
				p.kill()
				go func() {
					<-p.ended
					u.mu.Lock()
					defer u.mu.Unlock()
					u.launch()
				}()
			}
		}
	})
	u.config = config
}

func (u *units) Restart(ctx context.Context, unit string) error {
	u.mu.Lock()
	end, ended := u.endWatch, u.watchEnded
	u.mu.Unlock()
	if end != nil {
		end()
		<-ended
	}
	return u.Launch(ctx, unit)
}

func (u *units) Launch(_ context.Context, unit string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if unit == selfupdate.AgentUnit {
		if u.agent == nil && !u.failing {
			u.launch()
		}
		return nil
	}
	if u.watching {
		return nil
	}
	u.watching = true
	config := u.config
	config.Log = zap.NewNop()
	ctx, end := context.WithCancel(u.t.Context())
	ended := make(chan struct{})
	u.endWatch, u.watchEnded = end, ended
	u.watchers.Go(func() {
		defer close(ended)
		defer end()
		u.beforeWatch()
		w := selfupdate.Watcher{
			Store: u.open(), StateDir: u.stateDir, Systemd: u, BootID: "boot", Log: config.Log, Parts: StateParts(config.Now),
			Reach: ContactProbe(config), Proof: time.Minute, Sleep: sleep,
		}
		if err := w.Run(ctx); err != nil {
			u.t.Error(err)
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.watching = false
	})
	return nil
}

func (u *units) Stop(context.Context, string) error {
	u.mu.Lock()
	p := u.agent
	u.agent, u.failing = nil, false
	u.mu.Unlock()
	if p != nil {
		p.quit()
	}
	return nil
}

func (u *units) Look(context.Context, string) (selfupdate.Unit, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	id := fmt.Sprint("i", u.invocation)
	switch {
	case u.failing:
		u.invocation++ // systemd starts it again, and again
		return selfupdate.Unit{Active: "activating", Sub: "auto-restart", Invocation: id, Restarts: u.invocation}, nil
	case u.agent == nil:
		return selfupdate.Unit{Active: "inactive", Sub: "dead", Invocation: id}, nil
	}
	return selfupdate.Unit{Active: "active", Sub: "running", Invocation: id}, nil
}

// now is the running agent.
func (u *units) now() *process {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.agent
}

// publish puts a release at the broker, and returns the params of its update.
func (u *units) publish(version, behaviour string) string {
	u.t.Helper()
	r := releasetest.Make(u.t, []byte(version+" "+behaviour), releasetest.Statement(version), u.broker.Auth.Release.Key)
	u.broker.Lock()
	defer u.broker.Unlock()
	u.broker.Packages = map[string][]byte{r.Digest: r.Manifest, release.Digest(r.Statement): r.Statement, release.Digest(r.Layer): r.Layer}
	raw, err := taskcatalog.Encode(taskcatalog.SelfUpdateParams{
		Phase: taskcatalog.PhaseUpdate, Version: version, Manifest: &taskcatalog.ReleaseManifest{Digest: r.Digest, Size: int64(len(r.Manifest))},
		Signatures: []taskcatalog.ReleaseSignature{taskcatalog.ReleaseSignature(r.Signatures[0])},
	})
	if err != nil {
		u.t.Fatal(err)
	}
	return string(raw)
}

// begin starts the first agent.
func (u *units) begin() (nodeID string) {
	u.mu.Lock()
	u.launch()
	p := u.agent
	u.mu.Unlock()
	return u.nodeID(p)
}

func resultOf(t *testing.T, r wire.ResultRequest) taskcatalog.SelfUpdateResult {
	t.Helper()
	var res taskcatalog.SelfUpdateResult
	if err := json.Unmarshal(r.Result, &res); err != nil {
		t.Fatalf("%v in %+v", err, r)
	}
	return res
}

func TestTheVersionThatRunsInTheEndReportsTheUpdate(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		outcome   taskcatalog.Outcome
		code      taskcatalog.Code
		came      taskcatalog.UpdateOutcome
		runs      string
	}{
		{"fine", taskcatalog.OutcomeSucceeded, "", taskcatalog.UpdateConfirmed, "1.1.0"},
		{"exits", taskcatalog.OutcomeFailed, selfupdate.CodeCrashLoop, taskcatalog.UpdateRolledBack, "1.0.0"},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				core, lines := observer.New(zap.InfoLevel)
				l.config.Log = zap.New(core)
				u := newUnits(l)
				id := u.begin()
				q := l.broker.Enqueue(id, "node.self_update", u.publish("1.1.0", c.behaviour))
				r := l.broker.Wait(q, 10*time.Minute)
				wantResult(t, r, c.outcome, c.code)
				res := resultOf(t, r)
				if res.Outcome != c.came || res.FromVersion != "1.0.0" || res.ToVersion != "1.1.0" || res.Reason != c.code || len(res.Slots) != 2 {
					t.Errorf("%+v", res)
				}
				if res.SwitchSeconds <= 0 || res.SwitchSeconds > 15 || res.Seconds < res.SwitchSeconds {
					t.Errorf("it took %.1f s of %.1f s", res.SwitchSeconds, res.Seconds)
				}
				if c.outcome == taskcatalog.OutcomeFailed && !strings.HasPrefix(r.Message, "version 1.1.0 was rolled back, and 1.0.0 runs again: ") {
					t.Errorf("it says %q", r.Message)
				}
				if q.Evidence.AgentVersion != c.runs {
					t.Errorf("version %s signed for it", q.Evidence.AgentVersion)
				}
				// Delivered again, the task gets the same answer, and no switch happens.
				starts := len(u.ran)
				l.broker.Forget(q)
				if again := l.broker.Wait(q, 10*time.Minute); again.Outcome != r.Outcome || string(again.Result) != string(r.Result) || len(u.ran) != starts {
					t.Errorf("%v ran", u.ran)
				}
				l.until("the report says so", func() bool {
					b := u.now().nodeReport.Load().report.Agent
					return b != nil && b.Commit == "c-"+c.runs && b.Delivery != nil && b.Delivery.ID == q.ID && b.Delivery.Outcome == c.came && b.Delivery.Reason == c.code
				})
				// A failed version is pinned and skipped; after a successful update Previous is
				// set.
				b := u.now().nodeReport.Load().report.Agent
				if skips := len(b.Pins) == 1 && b.Pins[0].Version == "1.1.0" && b.Pins[0].Reason == c.code; skips != (c.runs == "1.0.0") || (b.Previous == "1.0.0") != (c.runs == "1.1.0") {
					t.Errorf("it reports %+v", b)
				}
				// The task began once, according to the journal as well, whichever version resumed
				// it.
				lines = lines.FilterField(zap.String("task", q.ID))
				if n, on := lines.FilterMessage("the task runs").Len(), lines.FilterMessageSnippet("a task continues that").Len(); n != 1 || on == 0 {
					t.Errorf("it began %d times, and went on %d times", n, on)
				}
				u.works(id)
				u.watchers.Wait()
			})
		})
	}
}

// works has the running agent execute a task.
func (u *units) works(nodeID string) {
	u.t.Helper()
	wantResult(u.t, u.broker.Wait(u.broker.Enqueue(nodeID, "node.heartbeat_check", `{}`), 10*time.Minute), taskcatalog.OutcomeSucceeded, "")
}

func TestAFailedVersionIsSkippedUntilSomeoneSaysOtherwise(t *testing.T) {
	inBubble(t, func(l *lab) {
		u := newUnits(l)
		id := u.begin()
		params := u.publish("1.1.0", "exits")
		wantResult(t, l.broker.Wait(l.broker.Enqueue(id, "node.self_update", params), 10*time.Minute), taskcatalog.OutcomeFailed, selfupdate.CodeCrashLoop)
		u.watchers.Wait()
		starts := len(u.ran)
		r := l.broker.Wait(l.broker.Enqueue(id, "node.self_update", params), 10*time.Minute)
		wantResult(t, r, taskcatalog.OutcomeFailed, selfupdate.CodePinned)
		if res := resultOf(t, r); res.Outcome != taskcatalog.UpdateRefused || len(u.ran) != starts || !strings.Contains(r.Message, "the version ended twice") {
			t.Errorf("%+v %s, %v ran", res, r.Message, u.ran)
		}
		force := strings.Replace(u.publish("1.1.0", "fine"), `"phase"`, `"force":true,"phase"`, 1)
		wantResult(t, l.broker.Wait(l.broker.Enqueue(id, "node.self_update", force), 10*time.Minute), taskcatalog.OutcomeFailed, selfupdate.CodeNoReason)
		reason := strings.Replace(force, `"force":true`, `"force":true,"reason":"the disk was full"`, 1)
		wantResult(t, l.broker.Wait(l.broker.Enqueue(id, "node.self_update", reason), 10*time.Minute), taskcatalog.OutcomeSucceeded, "")
		u.watchers.Wait()
	})
}

// The crash hits both ways of ending a task, in the version that reports the task.
func TestACrashOfTheNewVersionNeitherLosesNorRepeatsATask(t *testing.T) {
	for _, boundary := range []string{"before finish", "after finish", "after report"} {
		t.Run(boundary, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				u := newUnits(l)
				id := u.begin()
				u.mu.Lock()
				u.dies = boundary
				u.mu.Unlock()
				q := l.broker.Enqueue(id, "node.self_update", u.publish("1.1.0", "fine"))
				wantResult(t, l.broker.Wait(q, 10*time.Minute), taskcatalog.OutcomeSucceeded, "")
				l.until("the agent was started again", func() bool { u.mu.Lock(); defer u.mu.Unlock(); return len(u.ran) == 3 && u.agent != nil })
				u.works(id)
				u.watchers.Wait()
				if st, err := u.open().Load(); err != nil || len(st.Deliveries) != 1 || st.Good != "1.1.0" {
					t.Errorf("%+v %v", st, err)
				}
			})
		})
	}
}

func TestAVersionOnTrialTakesNoTask(t *testing.T) {
	inBubble(t, func(l *lab) {
		u := newUnits(l)
		id := u.begin()
		var mu sync.Mutex
		var tookBy []string
		l.handle("node.heartbeat_check@1", do(func(_ context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			st, err := u.open().Load()
			mu.Lock()
			defer mu.Unlock()
			if tookBy = append(tookBy, r.Host.Version); err != nil || u.open().Pending() {
				t.Errorf("%s took a task: %+v %v", r.Host.Version, st.Trial, err)
			}
			return &taskcatalog.HeartbeatCheckResult{AgentVersion: r.Host.Version}, taskcatalog.Report{}, nil
		}))
		var probes []*agenttest.Task
		u.beforeWatch = func() {
			for range 3 {
				probes = append(probes, l.broker.Enqueue(id, "node.heartbeat_check", `{}`))
			}
		}
		wantResult(t, l.broker.Wait(l.broker.Enqueue(id, "node.self_update", u.publish("1.1.0", "fine")), 10*time.Minute), taskcatalog.OutcomeSucceeded, "")
		u.watchers.Wait()
		for _, q := range probes {
			wantResult(t, l.broker.Wait(q, 10*time.Minute), taskcatalog.OutcomeSucceeded, "")
		}
		if len(tookBy) != 3 {
			t.Errorf("%d tasks ran as %v", len(probes), tookBy)
		}
	})
}

// refuse makes the broker refuse to hand out tasks from the switch on. to selects the versions; the
// refusal lasts while the returned flag is set. The broker's lock guards the flag.
func (u *units) refuse(status int, to func(version string) bool) *bool {
	refused := new(bool)
	u.broker.Lock()
	defer u.broker.Unlock()
	refuses := refuseWhile("/tasks/wait", refused, status, "away")
	u.broker.Before = func(w http.ResponseWriter, r *http.Request) bool {
		return to(r.Header.Get(wire.HeaderAgentVersion)) && refuses(w, r)
	}
	u.beforeWatch = func() { u.broker.Lock(); defer u.broker.Unlock(); *refused = true }
	return refused
}

// A version is tried for its polls: a version whose polls fail is reverted, even if the broker
// answers all its other requests.
func TestAVersionThatCannotAskForTasksIsPutBack(t *testing.T) {
	inBubble(t, func(l *lab) {
		u := newUnits(l)
		id := u.begin()
		u.refuse(http.StatusServiceUnavailable, func(version string) bool { return version == "1.1.0" })
		q := l.broker.Enqueue(id, "node.self_update", u.publish("1.1.0", "fine"))
		wantResult(t, l.broker.Wait(q, time.Hour), taskcatalog.OutcomeFailed, selfupdate.CodeNoContact)
		u.watchers.Wait()
	})
}

// The watcher polls under the instance of the watched agent, so that the broker sees a single
// agent.
func TestTheWatcherAsksAsTheAgentThatItWatches(t *testing.T) {
	inBubble(t, func(l *lab) {
		u := newUnits(l)
		id := u.begin()
		u.refuse(http.StatusServiceUnavailable, func(version string) bool { return version == "1.1.0" })
		l.broker.Lock()
		var mu sync.Mutex
		refuses, agents, watchers := l.broker.Before, map[string]bool{}, map[string]bool{}
		l.broker.Before = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/tasks/wait") {
				mu.Lock()
				defer mu.Unlock()
				of := agents
				if r.URL.RawQuery == "lanes=" && r.Header.Get(wire.HeaderPrefer) == wire.PreferNoWait && u.open().Pending() && r.Header.Get(wire.HeaderAgentVersion) != "1.1.0" {
					of = watchers
				}
				of[r.Header.Get(wire.HeaderInstance)] = true
			}
			return refuses(w, r)
		}
		l.broker.Unlock()
		wantResult(t, l.broker.Wait(l.broker.Enqueue(id, "node.self_update", u.publish("1.1.0", "fine")), time.Hour), taskcatalog.OutcomeFailed, selfupdate.CodeNoContact)
		u.watchers.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(watchers) != 1 {
			t.Fatalf("it asks as %v", watchers)
		}
		for instance := range watchers {
			if instance == "" || !agents[instance] {
				t.Errorf("it asks as %q, which is none of %v", instance, agents)
			}
		}
	})
}

// A broker, or a proxy before it, that hands out no task to any version and answers all other
// requests, is no evidence against the version on trial.
func TestABrokerThatHandsOutNoTasksRevertsNothing(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusForbidden, http.StatusNotFound} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inBubble(t, func(l *lab) {
				u := newUnits(l)
				id := u.begin()
				refused := u.refuse(status, func(string) bool { return true })
				q := l.broker.Enqueue(id, "node.self_update", u.publish("1.1.0", "fine"))
				l.until("it is watched", func() bool {
					st, err := u.open().Load()
					return err == nil && st.Trial != nil && st.Trial.WatchedSeconds > 900
				})
				l.broker.Lock()
				*refused = false
				l.broker.Unlock()
				wantResult(t, l.broker.Wait(q, time.Hour), taskcatalog.OutcomeSucceeded, "")
				u.watchers.Wait()
			})
		})
	}
}

// A version that spoils the node's identity is silent by its own fault.
func TestTheBrokerIsAskedWithTheIdentityOfBeforeTheSwitch(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		l.nodeID(p)
		p.quit()
		reaches := func() bool { return ContactProbe(l.config)(context.Background(), "") }
		if !reaches() {
			t.Fatal("the node's own identity is not answered")
		}
		before, own := selfupdate.BeforeDir(l.config.StateDir), filepath.Join(l.config.StateDir, "identity.json")
		files, _ := filepath.Glob(filepath.Join(l.config.StateDir, "*"))
		if err := os.MkdirAll(before, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(before, filepath.Base(file)), raw, 0o600)
			}
			if err != nil {
				t.Log(err) // a folder
			}
		}
		for name, spoil := range map[string]func() error{
			"spoilt": func() error { return os.WriteFile(own, []byte("{"), 0o600) },
			"gone":   func() error { return os.Remove(own) },
		} {
			if err := spoil(); err != nil || !reaches() {
				t.Errorf("%s: not reached, %v", name, err)
			}
		}
		if err := os.RemoveAll(before); err != nil || reaches() {
			t.Errorf("reached as nobody, %v", err)
		}
		if _, err := os.Stat(before); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("asking has made the folder: %v", err)
		}
	})
}

func TestTheBrokersPackageEndpointResumes(t *testing.T) {
	inBubble(t, func(l *lab) {
		u := newUnits(l)
		id := u.begin()
		params := u.publish("1.1.0", "fine")
		// A task that ends before the release is available keeps nothing of the release.
		l.broker.Lock()
		kept := l.broker.Packages
		l.broker.Packages = nil
		l.broker.Unlock()
		wantResult(t, l.broker.Wait(l.broker.Enqueue(id, "node.self_update", params), 10*time.Minute), taskcatalog.OutcomeFailed, selfupdate.CodeSourceRefused)
		l.broker.Lock()
		l.broker.Packages = kept
		l.broker.Unlock()
		body, err := brokerPackages{u.now().Agent}.Open(l.t.Context(), release.Part{Digest: keyOf(kept)}, 3)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = body.Close() }()
		rest := make([]byte, 4)
		if _, err := body.Read(rest); err != nil || string(rest) != string(kept[keyOf(kept)][3:7]) {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

func keyOf(m map[string][]byte) (key string) {
	for k := range m {
		key = max(key, k)
	}
	return key
}
