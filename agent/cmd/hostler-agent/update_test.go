package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// asked is a systemd that only records calls.
type asked struct {
	started, looked []string
	unit            selfupdate.Unit
	silent          bool
}

func (a *asked) Restart(_ context.Context, unit string) error {
	a.started = append(a.started, unit)
	return nil
}
func (a *asked) Launch(ctx context.Context, unit string) error { return a.Restart(ctx, unit) }
func (*asked) Stop(context.Context, string) error              { return errors.New("not asked for") }

func (a *asked) Look(ctx context.Context, unit string) (selfupdate.Unit, error) {
	if a.silent {
		<-ctx.Done()
		return selfupdate.Unit{}, ctx.Err()
	}
	a.looked = append(a.looked, unit)
	return a.unit, nil
}

// node is a machine with two versions: 1.1.0 runs, and 1.0.0 is the previous version.
func node(t *testing.T) (at place, conf string, heard *asked) {
	t.Helper()
	conf, state := config(t)
	lib := filepath.Join(t.TempDir(), "lib")
	for _, v := range []string{"1.0.0", "1.1.0", "0.9.0"} {
		dir := filepath.Join(lib, "versions", v)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "hostler-agent"), []byte(v), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("versions/1.1.0", filepath.Join(lib, "current")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(state, "update"), 0o700); err != nil {
		t.Fatal(err)
	}
	raw, err := taskcatalog.Encode(selfupdate.State{
		Form: 1, Good: "1.1.0", Previous: "1.0.0",
		Slots:      map[string]selfupdate.Slot{"1.1.0": {Version: "1.1.0"}, "1.0.0": {Version: "1.0.0", SHA256: strings.TrimPrefix(release.Digest([]byte("1.0.0")), "sha256:")}},
		Pins:       []selfupdate.Pin{{Version: "1.2.0", Reason: selfupdate.CodeCrashLoop, Message: "the version ended twice"}},
		Deliveries: []taskcatalog.AgentDelivery{{ID: "t-9", From: "1.1.0", To: "1.2.0", Outcome: taskcatalog.UpdateRolledBack, Reason: selfupdate.CodeCrashLoop, Message: "the version ended twice\x1b[2J", SwitchSeconds: 6.5}},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(state, "update", "state.json"), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	heard = new(asked)
	return place{lib: lib, systemd: heard}, conf, heard
}

// do runs the command update on a node.
func (at place) do(t *testing.T, conf string, args ...string) (string, error) {
	t.Helper()
	cmd := newUpdate(at)
	root := &cobra.Command{Use: "hostler-agent", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(cmd)
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs(append([]string{"update", "--config", conf}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestUpdateShowTellsWhatRunsWhatFailedAndWhy(t *testing.T) {
	at, conf, _ := node(t)
	out, err := at.do(t, conf, "show")
	out = strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"1.1.0 current, known to work", "1.0.0 before it", "skipped 1.2.0 crash_loop: the version ended twice", "1.1.0 to 1.2.0", "rolled_back", "6.5 s", `\x1b`} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if err != nil {
		t.Error(err)
	}
	if out, err = at.do(t, conf, "show", "-o", "json"); err != nil {
		t.Fatal(err)
	}
	var s versionsView
	if err := json.Unmarshal([]byte(out), &s); err != nil || len(s.Slots) != 3 || len(s.Pins) != 1 || s.Trial != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestVersionsAreSteeredByHand(t *testing.T) {
	at, conf, _ := node(t)
	for _, c := range []struct {
		args []string
		code taskcatalog.Code
		says string
	}{
		{[]string{"unpin", "1.2.0"}, "", "allowed again"},
		{[]string{"unpin", "1.2.0"}, selfupdate.CodeNotStaged, ""},
		{[]string{"pin", "1.3.0"}, codeUsage, ""},
		{[]string{"pin", "1.3.0", "--reason", "no"}, "", "skipped"},
		{[]string{"pin", "../x", "--reason", "no"}, taskcatalog.CodeBadParams, ""},
		{[]string{"forget", "1.1.0"}, selfupdate.CodeSlotInUse, ""},
		{[]string{"forget", "../../etc"}, selfupdate.CodeNotStaged, ""},
		{[]string{"forget", "0.9.0"}, "", "removed"},
		{[]string{"forget"}, codeUsage, ""},
		{[]string{"revert"}, codeUsage, ""},
	} {
		out, err := at.do(t, conf, c.args...)
		if taskcatalog.CodeOf(err, "") != c.code || (err != nil) != (c.code != "") || !strings.Contains(out, c.says) {
			t.Errorf("%v: %q, %v; want %q", c.args, out, err, c.code)
		}
	}
	if _, err := os.Stat(filepath.Join(at.lib, "versions", "0.9.0")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("0.9.0 is still there: %v", err)
	}
	// 1.0.0 cannot test itself: no switch happens.
	if _, err := at.do(t, conf, "revert", "--reason", "no GPUs"); taskcatalog.CodeOf(err, "") != selfupdate.CodeSelfTest {
		t.Errorf("to a version that does not run: %v", err)
	}
}

// People ask for the versions when an agent is down. systemd then removes the agent's status file.
func TestStatusShowsWhatIsThereWhereNoAgentRuns(t *testing.T) {
	at, conf, _ := node(t)
	at.sessions = t.TempDir()
	for _, name := range []string{"ts-7k2m4q6s", "ts-aaaaaaaa", "x"} {
		if err := os.Mkdir(filepath.Join(at.sessions, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for format, wants := range map[string][]string{
		"table": {"1.1.0 current, known to work", "1.0.0 before it", "skipped 1.2.0 crash_loop: the version ended twice", "rolled_back", "terminals 2 "},
		"json":  {`"terminals": [ "ts-7k2m4q6s", "ts-aaaaaaaa" ]`, `"pins": [ { "version": "1.2.0"`, `"outcome": "rolled_back"`},
	} {
		cmd := newStatus(at)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"--config", conf, "-o", format})
		if err := cmd.ExecuteContext(t.Context()); taskcatalog.CodeOf(err, "") != agent.CodeNotRunning {
			t.Errorf("%s: %v", format, err)
		}
		said := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range wants {
			if !strings.Contains(said, want) {
				t.Errorf("%s: it does not say %q:\n%s", format, want, out.String())
			}
		}
	}
}

// A version that does not read all of the node's state is refused before the switch.
func TestEveryFormOfTheStateCounts(t *testing.T) {
	for name, change := range map[string]func(f *agent.File) error{
		"configuration": func(f *agent.File) error { f.Form = 2; return nil },
		"identity": func(f *agent.File) error {
			return os.WriteFile(filepath.Join(f.StateDir, "identity.json"), []byte(`{"form":2,"of":"another kind"}`), 0o600)
		},
		"updates": func(f *agent.File) error {
			return os.WriteFile(filepath.Join(f.StateDir, "update", "state.json"), []byte(`{"form":2}`), 0o600)
		},
	} {
		_, conf, _ := node(t)
		file, err := agent.LoadFile(conf)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(file.StateDir, "identity.json"), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		if forms, err := formsHere(file); err != nil || slices.Max(forms) != 1 {
			t.Errorf("as it is: %v %v", forms, err)
		}
		if err := change(&file); err != nil {
			t.Fatal(err)
		}
		if forms, err := formsHere(file); err != nil || slices.Max(forms) != 2 {
			t.Errorf("%s: %v %v", name, forms, err)
		}
	}
}

// The command itself, as an update runs it.
func TestTheProgramTestsItself(t *testing.T) {
	conf, _ := config(t)
	status, out, errOut := call(t, "self-test", "--config", conf, "-o", "json")
	var said selfupdate.SelfTest
	if err := json.Unmarshal([]byte(out), &said); status != exitDone || err != nil || said.Version != version || said.State != release.State || len(said.Types) != len(taskcatalog.All()) {
		t.Errorf("status %d, %v: %s%s", status, err, out, errOut)
	}
	status, _, errOut = call(t, "self-test", "--config", write(t, "form: 99\n"))
	if status != exitUsage || !strings.Contains(errOut, "config_invalid") {
		t.Errorf("a configuration of a newer form: status %d, %s", status, errOut)
	}
	conf, state := config(t)
	if err := errors.Join(os.MkdirAll(state, 0o700), os.WriteFile(filepath.Join(state, "identity.json"), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if status, _, errOut = call(t, "self-test", "--config", conf); status != exitFailed || !strings.Contains(errOut, "state_invalid") {
		t.Errorf("an identity that cannot be read: status %d, %s", status, errOut)
	}
}

// A version must be able to watch its successor. This is tested before the switch, because
// afterwards no other version can watch.
func TestAProgramThatCouldNotWatchFailsItsOwnTest(t *testing.T) {
	runs := selfupdate.Unit{Active: "active", Sub: "running", Invocation: "i1"}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, state string, systemd *asked)
		says  string // empty: passes
	}{
		"all is well":              {func(*testing.T, string, *asked) {}, ""},
		"nothing was ever updated": {func(t *testing.T, state string, _ *asked) { _ = os.RemoveAll(filepath.Join(state, "update")) }, ""},
		"it cannot read what was decided": {func(t *testing.T, state string, _ *asked) {
			if err := os.WriteFile(filepath.Join(state, "update", "state.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "cannot read the update's state"},
		"systemd does not answer it":   {func(_ *testing.T, _ string, s *asked) { s.silent = true }, "systemd"},
		"it does not see what it asks": {func(_ *testing.T, _ string, s *asked) { s.unit = selfupdate.Unit{} }, "systemd"},
	} {
		t.Run(name, func(t *testing.T) {
			at, conf, heard := node(t)
			heard.unit = runs
			file, err := agent.LoadFile(conf)
			if err != nil {
				t.Fatal(err)
			}
			c.spoil(t, file.StateDir, heard)
			before := listing(t, at.lib, file.StateDir)
			synctest.Test(t, func(t *testing.T) { _, err = selfTest(t.Context(), at, conf) })
			if said := fmt.Sprint(err); (err != nil) != (c.says != "") || err != nil && (!strings.Contains(said, c.says) || taskcatalog.CodeOf(err, "") != codeSelfTest) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if after := listing(t, at.lib, file.StateDir); !slices.Equal(before, after) || len(heard.started) > 0 {
				t.Errorf("%v became %v, and %v was started", before, after, heard.started)
			}
		})
	}
}

// listing returns the names in folders, with their modification times.
func listing(t *testing.T, dirs ...string) (all []string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.Walk(dir, func(name string, info fs.FileInfo, err error) error {
			if err == nil {
				all = append(all, name+" "+info.ModTime().String())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A node with an unusable folder of updates keeps its agent.
func TestAnAgentThatCannotUpdateItselfServes(t *testing.T) {
	at, _, _ := node(t)
	program := filepath.Join(at.lib, "versions", "1.1.0", "hostler-agent")
	state := t.TempDir()
	core, said := observer.New(zap.ErrorLevel)
	config := agent.Config{File: agent.File{StateDir: state}, Now: time.Now, Log: zap.New(core)}
	if err := os.WriteFile(filepath.Join(state, "update"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if u := updates(&config, at.lib, program, ""); u != nil || said.Len() != 1 {
		t.Errorf("%+v, %d lines in the log", u, said.Len())
	}
	if err := os.Remove(filepath.Join(state, "update")); err != nil {
		t.Fatal(err)
	}
	u := updates(&config, at.lib, program, "")
	if u == nil || u.Running != "1.1.0" || said.Len() != 1 {
		t.Fatalf("%+v, %d lines in the log", u, said.Len())
	}
	_ = u.Store.Close()
}

// An unreadable record is reported, and the slots on disk are shown.
func TestVersionsAreShownWhereTheirStateCannotBeRead(t *testing.T) {
	at, conf, _ := node(t)
	file, err := agent.LoadFile(conf)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(file.StateDir, "update", "state.json"), []byte("{"), 0o600), os.Symlink("versions/1.0.0", filepath.Join(at.lib, "good")))
	}
	if err != nil {
		t.Fatal(err)
	}
	status := func() (string, error) {
		cmd := newStatus(at)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"--config", conf})
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	show := func() (string, error) { return at.do(t, conf, "show") }
	for name, of := range map[string]func() (string, error){"status": status, "update show": show} {
		out, err := of()
		out = strings.Join(strings.Fields(out), " ")
		for _, want := range []string{"version 1.1.0 current", "version 1.0.0 known to work", "version 0.9.0", "cannot read the update's state"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s does not say %q:\n%s", name, want, out)
			}
		}
		if err == nil {
			t.Errorf("%s is content", name)
		}
	}
	if _, err := show(); taskcatalog.CodeOf(err, "") != selfupdate.CodeStateInvalid {
		t.Errorf("update show: %v", err)
	}
}
