package command

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/resolver"
	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAProgramGetsItsArgumentsAsTheyAre(t *testing.T) {
	r, _ := box(t)
	p := tool("args", "$HOME; rm -rf *", "a b")
	p.ArgSchema = []profiles.Arg{{Name: "gpus", Type: profiles.ArgList, Pattern: "[a-z$()]+", MaxItems: 2, Flag: "-i", Join: ","}}
	res, err := r.Run(t.Context(), p, map[string]any{"gpus": []string{"$(id)", "b"}})
	want := `["/usr/bin/tool" "$HOME; rm -rf *" "a b" "-i" "$(id),b"]`
	if err != nil || strings.TrimSpace(string(res.Stdout.Kept)) != want || res.ExitCode != 0 || len(res.Attempts) != 1 {
		t.Errorf("%s, %+v, %v", res.Stdout.Kept, res.Attempts, err)
	}
	// A step passes all inputs; a profile receives the named ones.
	step := resolver.Resolved{Step: profiles.StepReset, Command: tool("args")}
	if res, _, err := r.Step(t.Context(), step, map[string]any{"gpus": []string{"b"}}); err != nil || string(res.Stdout.Kept) != "[\"/usr/bin/tool\"]\n" {
		t.Errorf("%s, %v", res.Stdout.Kept, err)
	}
	if _, err := r.Run(t.Context(), p, map[string]any{"gpus": []string{"-x"}}); taskcatalog.CodeOf(err, "") != profiles.CodeBadArgs {
		t.Errorf("an option: %v", err)
	}
}

func TestNothingOfTheAgentsEnvironmentIsInherited(t *testing.T) {
	r, _ := box(t)
	t.Setenv("HOSTLER_TOKEN", "SECRET")
	t.Setenv("LD_LIBRARY_PATH", "/tmp/SECRET")
	t.Setenv("CUDA_VISIBLE_DEVICES", "1")
	t.Setenv("LANG", "de_DE.UTF-8")
	p := tool("environment")
	p.EnvPassthrough = []string{"CUDA_VISIBLE_DEVICES", "LANG", "LC_ALL"}
	want := []string{"CUDA_VISIBLE_DEVICES=1", "HOME=/", "LANG=de_DE.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if v, ok := os.LookupEnv("LC_ALL"); ok {
		want = append(want, "LC_ALL="+v)
	}
	res, err := r.Run(t.Context(), p, nil)
	got := slices.DeleteFunc(res.Stdout.Lines(100), func(v string) bool { return strings.HasPrefix(v, markName) })
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestNoDescriptorOfTheAgentIsInherited(t *testing.T) {
	r, dir := box(t)
	secret, err := os.Create(dir + "/opt/secret")
	ok(t, err)
	defer func() { _ = secret.Close() }()
	res, err := r.Run(t.Context(), tool("files"), nil)
	if err != nil || strings.Contains(string(res.Stdout.Kept), dir) || !strings.Contains(string(res.Stdout.Kept), "/dev/null") {
		t.Errorf("%s, %v", res.Stdout.Kept, err)
	}
}

func TestAProgramRunsAsItsAccountAndInItsOwnSession(t *testing.T) {
	r, _ := box(t)
	r.Account = func(name string) (*syscall.Credential, error) {
		if name != "gpu-check" {
			return nil, errors.New("no such account")
		}
		return &syscall.Credential{Uid: 65534, Gid: 65533, Groups: []uint32{44, 109}}, nil
	}
	for user, want := range map[string]string{"root": "0 0 ", "gpu-check": "65534 65533 [44 109] / true"} {
		p := tool("who")
		p.User = user
		res, err := r.Run(t.Context(), p, nil)
		if err != nil || !strings.HasPrefix(string(res.Stdout.Kept), want) || !strings.HasSuffix(string(res.Stdout.Kept), "/ true\n") {
			t.Errorf("%s: %s, %v", user, res.Stdout.Kept, err)
		}
	}
	p := tool("who")
	p.User = "nobody-here"
	if _, err := r.Run(t.Context(), p, nil); taskcatalog.CodeOf(err, "") != CodeAccountUnknown {
		t.Errorf("%v", err)
	}
	if err := r.Check(p); taskcatalog.CodeOf(err, "") != CodeAccountUnknown {
		t.Errorf("check: %v", err)
	}
}

// The checked file runs, even if the path changes meanwhile.
func TestAProgramSwappedAfterTheCheckDoesNotRun(t *testing.T) {
	for name, swap := range map[string]func(dir string) error{
		"the file": func(d string) error {
			return errors.Join(os.WriteFile(d+"/opt/evil", []byte("#!/bin/sh\necho EVIL\n"), 0o755), os.Rename(d+"/opt/evil", d+"/usr/bin/tool"))
		},
		"the link": func(d string) error {
			return errors.Join(os.Remove(d+"/usr/bin/tool"), os.Symlink("/bin/echo", d+"/usr/bin/tool"))
		},
		"a folder above it": func(d string) error {
			return errors.Join(os.Rename(d+"/usr", d+"/was"), os.MkdirAll(d+"/usr/bin", 0o777), os.WriteFile(d+"/usr/bin/tool", []byte("#!/bin/sh\necho EVIL\n"), 0o755))
		},
		"all": os.RemoveAll,
	} {
		r, dir := box(t)
		if name == "the link" {
			ok(t, os.Rename(dir+"/usr/bin/tool", dir+"/opt/tool"))
			ok(t, os.Symlink("/opt/tool", dir+"/usr/bin/tool"))
		}
		swapped := false
		r.checked = func() {
			ok(t, swap(dir))
			swapped = true
		}
		res, err := r.Run(t.Context(), tool("args", "mine"), nil)
		if err != nil || !swapped || string(res.Stdout.Kept) != "[\"/usr/bin/tool\" \"mine\"]\n" {
			t.Errorf("%s: %q, %v", name, res.Stdout.Kept, err)
		}
	}
}

func TestAFloodIsCountedAndNotKept(t *testing.T) {
	r, _ := box(t)
	p := tool("flood")
	p.CaptureStdout = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := r.Run(t.Context(), p, nil)
	runtime.ReadMemStats(&after)
	if err != nil || len(res.Stdout.Kept) != 1000 || res.Stdout.Total != 64<<20 || !res.Stdout.Cut() {
		t.Errorf("%d kept of %d, %v", len(res.Stdout.Kept), res.Stdout.Total, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("it cost %d bytes", used)
	}
	p.CaptureStdout = 0
	if res, err = r.Run(t.Context(), p, nil); err != nil || len(res.Stdout.Kept) != 0 || res.Stdout.Total != 64<<20 {
		t.Errorf("without a capture: %d kept of %d, %v", len(res.Stdout.Kept), res.Stdout.Total, err)
	}
}

func TestWhatAProgramSaysIsCleanedAndItsEndHasACode(t *testing.T) {
	r, _ := box(t)
	p := tool("fail")
	res, err := r.Run(t.Context(), p, nil)
	if taskcatalog.CodeOf(err, "") != CodeExitCode || res.ExitCode != 9 || !strings.Contains(err.Error(), `ended with 9: it broke\x1b[2J`) {
		t.Errorf("%+v, %v", res.Attempts, err)
	}
	if got := res.Stderr.Lines(10); len(got) != 1 || got[0] != `it broke\x1b[2J` {
		t.Errorf("%q", got)
	}
	p.ExpectedExitCodes = []int{0, 9}
	if _, err := r.Run(t.Context(), p, nil); err != nil {
		t.Errorf("an exit code that is expected: %v", err)
	}
	p = tool("crash")
	if res, err := r.Run(t.Context(), p, nil); taskcatalog.CodeOf(err, "") != CodeSignaled || res.ExitCode != -1 {
		t.Errorf("%+v, %v", res.Attempts, err)
	}
}

func TestAProgramIsTriedAgainAsOftenAsItsProfileSays(t *testing.T) {
	r, dir := box(t)
	for _, c := range []struct {
		retries, attempts int
		code              taskcatalog.Code
	}{{0, 1, CodeExitCode}, {1, 2, CodeExitCode}, {2, 3, ""}, {5, 3, ""}} {
		_ = os.Remove(dir + "/opt/count")
		p := tool("count", dir+"/opt/count")
		p.Retries = c.retries
		step := resolver.Resolved{Step: profiles.StepRuntimeCheck, Rule: "here", Command: p}
		res, records, err := r.Step(t.Context(), step, nil)
		if len(res.Attempts) != c.attempts || len(records) != c.attempts || taskcatalog.CodeOf(err, "") != c.code {
			t.Fatalf("%d retries: %+v, %v", c.retries, res.Attempts, err)
		}
		for i, rec := range records {
			last := i == c.attempts-1 && c.code == ""
			if rec.AttemptNumber != i+1 || rec.ResolvedProfile != "tool" || rec.HardwareMatch != "here" || (rec.Status == taskcatalog.StepSucceeded) != last || (rec.ErrorCode == "") != last {
				t.Errorf("%d retries: %+v", c.retries, rec)
			}
		}
	}
	// A program that may not run is not retried.
	ok(t, os.Chmod(dir+"/usr/bin/tool", 0o777))
	p := tool("args")
	p.Retries = 5
	if _, records, err := r.Step(t.Context(), resolver.Resolved{Step: profiles.StepRuntimeCheck, Command: p}, nil); len(records) != 1 || records[0].ErrorCode != CodeExecutableInsecure {
		t.Errorf("%+v, %v", records, err)
	}
}

func TestAProgramThatHangsIsKilled(t *testing.T) {
	r, _ := box(t)
	p := tool("hang")
	p.TimeoutSeconds = 5 // a busy machine takes seconds to start it, and its words are wanted
	if res, err := r.Run(t.Context(), p, nil); taskcatalog.CodeOf(err, "") != CodeTimedOut || res.ExitCode != -1 || !strings.Contains(err.Error(), "hangs") {
		t.Errorf("%+v, %v", res.Attempts, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := errors.New("canceled by somebody")
	r.checked = func() { time.AfterFunc(50*time.Millisecond, func() { cancel(asked) }) }
	p.TimeoutSeconds, p.Retries = 60, 5
	_, records, err := r.Step(ctx, resolver.Resolved{Step: profiles.StepRuntimeCheck, Command: p}, nil)
	if !errors.Is(err, asked) || len(records) != 1 || records[0].Status != taskcatalog.StepCanceled {
		t.Errorf("%+v, %v", records, err)
	}
}

// A program may end and leave a process of its group behind.
func TestNobodyOutlivesTheProgram(t *testing.T) {
	r, _ := box(t)
	for _, kind := range []string{"parent", "parent-of-stray"} { // the stray has a session of its own
		res, err := r.Run(t.Context(), tool(kind), nil)
		pid, perr := strconv.Atoi(strings.TrimSpace(string(res.Stdout.Kept)))
		if err != nil || perr != nil {
			t.Fatalf("%s: %s, %v", kind, res.Stdout.Kept, err)
		}
		for deadline := time.Now().Add(10 * time.Second); alive(pid); runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: process %d outlived its program", kind, pid)
			}
		}
	}
}

// A process that shed group and mark cannot be found, but is reported.
func TestAProcessThatCannotBeFoundIsTold(t *testing.T) {
	r, _ := box(t)
	r.grace = 100 * time.Millisecond
	res, err := r.Run(t.Context(), tool("parent-of-stranger"), nil)
	pid, perr := strconv.Atoi(strings.TrimSpace(string(res.Stdout.Kept)))
	if perr != nil {
		t.Fatalf("%s, %v", res.Stdout.Kept, err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	if taskcatalog.CodeOf(err, "") != CodeLeftProcesses {
		t.Errorf("%v", err)
	}
}

func alive(pid int) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, _ := strings.Cut(string(raw), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// Many vendors' tools are scripts. A Python script finds its modules beside it, as under its own
// name.
func TestAScriptRunsByItsInterpreter(t *testing.T) {
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("no python here")
	}
	r, dir := box(t)
	ok(t, copyTo("/usr/bin/env")(dir))
	ok(t, copyTo("/usr/bin/python3")(dir))
	ok(t, os.Symlink("../../opt/smi.py", dir+"/usr/bin/smi"))
	ok(t, os.WriteFile(dir+"/opt/smi.py", []byte("#!/usr/bin/env python3\nimport sys, beside\nprint(beside.word, sys.argv[1:])\n"), 0o755))
	ok(t, os.WriteFile(dir+"/opt/beside.py", []byte("word = 'found'\n"), 0o644))
	p := tool("x")
	p.Command = "/usr/bin/smi"
	res, err := r.Run(t.Context(), p, nil)
	if err != nil || string(res.Stdout.Kept) != "found ['be', 'x']\n" {
		t.Errorf("%s %s, %v", res.Stdout.Kept, res.Stderr.Kept, err)
	}
}
