package steps

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

var aJoin = taskcatalog.ClusterJoin{Node: "gpu-7", Controller: "ctl.example:6817", Auth: "munge", Key: []byte("planted-key-of-the-cluster-32-byte")}

// joining is a step that joins with a credential, on a node with munge and slurmd.
func joining(t *testing.T, c taskcatalog.ClusterJoin, labels ...string) (*Step, string) {
	t.Helper()
	h, dir := hosttest.Box(t)
	hosttest.Put(t, dir, "etc/passwd", "root:x:0:0:root:/root:/bin/bash\nmunge:x:112:118::/:/bin/false\nslurm:x:64030:64030::/:/bin/false\n")
	h.Systemd.(*hosttest.Systemd).Obeys = true
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	args := Args{"cluster": "slurm", "credential": NewSecret(raw, nil)}
	if len(labels) > 0 {
		args["labels"] = labels
	}
	return aStep(t, h, "cluster.join", args), dir
}

func TestANodeJoinsWithTheKeyAndFixedArguments(t *testing.T) {
	needsRoot(t)
	s, dir := joining(t, aJoin, "gpu", "h100.8")
	d := s.Host.Systemd.(*hosttest.Systemd)
	if look(t, s) {
		t.Error("a node is joined before it joins")
	}
	proof, err := do(t, s)
	if err != nil || strings.Contains(proof.Message, "planted") {
		t.Fatal(proof, err)
	}
	info, err := os.Stat(filepath.Join(dir, "etc/munge/munge.key"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 112 || st.Gid != 118 || st.Mode&0o7777 != 0o400 || hosttest.Read(t, dir, "etc/munge/munge.key") != string(aJoin.Key) {
		t.Errorf("the key is of %d:%d, mode %o", st.Uid, st.Gid, st.Mode)
	}
	if got := hosttest.Read(t, dir, "etc/systemd/system/slurmd.service.d/50-hostler.conf"); !strings.HasSuffix(got,
		"ExecStart=\nExecStart=/usr/sbin/slurmd -D -Z -N gpu-7 --conf-server ctl.example:6817 --conf Feature=gpu,h100.8\n") {
		t.Errorf("the unit's file is %s", got)
	}
	if want := []string{"reload", "enable munge.service", "restart munge.service", "enable slurmd.service", "restart slurmd.service"}; !slices.Equal(d.Asked, want) {
		t.Errorf("systemd was asked %q", d.Asked)
	}
	if state := s.Checkpoint.(*notes).state; strings.Contains(string(state), "planted") || strings.Contains(string(state), "ctl.example") {
		t.Errorf("the checkpoint is %s", state)
	}

	// A look of a later task has no credential, and finds what is no longer so.
	delete(s.Args, "credential")
	if !look(t, s) {
		t.Error("what was joined is not found")
	}
	for what, change := range map[string]func(){
		"slurmd ended":          func() { d.On["slurmd.service"] = false },
		"another key":           func() { hosttest.Put(t, dir, "etc/munge/munge.key", "another") },
		"another unit's file":   func() { hosttest.Put(t, dir, "etc/systemd/system/slurmd.service.d/50-hostler.conf", "[Service]\n") },
		"a key that all read":   func() { _ = os.Chmod(filepath.Join(dir, "etc/munge/munge.key"), 0o444) },
		"a key of another user": func() { _ = os.Chown(filepath.Join(dir, "etc/munge/munge.key"), 0, 0) },
		"no key":                func() { _ = os.Remove(filepath.Join(dir, "etc/munge/munge.key")) },
	} {
		s, dir = joining(t, aJoin)
		d = s.Host.Systemd.(*hosttest.Systemd)
		if _, err := do(t, s); err != nil {
			t.Fatal(err)
		}
		if change(); look(t, s) {
			t.Errorf("%s: the node counts as joined", what)
		}
		if _, err := do(t, s); err != nil || !look(t, s) {
			t.Errorf("%s: it cannot be joined again: %v", what, err)
		}
	}
}

func TestAJoinIsRefused(t *testing.T) {
	needsRoot(t)
	with := func(change func(c *taskcatalog.ClusterJoin)) taskcatalog.ClusterJoin {
		c := aJoin
		change(&c)
		return c
	}
	for name, row := range map[string]struct {
		c      taskcatalog.ClusterJoin
		labels []string
		code   taskcatalog.Code
	}{
		"a label with an option":     {aJoin, []string{"gpu", "x --conf-server=evil"}, taskcatalog.CodePlanInvalid},
		"a label that begins as one": {aJoin, []string{"-v"}, taskcatalog.CodePlanInvalid},
		"a label of several lines":   {aJoin, []string{"x\nExecStartPre=/bin/sh"}, taskcatalog.CodePlanInvalid},
		"a label of systemd":         {aJoin, []string{"%h"}, taskcatalog.CodePlanInvalid},
		"a node with an option":      {with(func(c *taskcatalog.ClusterJoin) { c.Node = "n1 -f /x" }), nil, taskcatalog.CodePlanInvalid},
		"a controller with more":     {with(func(c *taskcatalog.ClusterJoin) { c.Controller = "ctl:6817,evil:6817" }), nil, taskcatalog.CodePlanInvalid},
		"another authentication":     {with(func(c *taskcatalog.ClusterJoin) { c.Auth = "none" }), nil, taskcatalog.CodePlanInvalid},
		"no key":                     {with(func(c *taskcatalog.ClusterJoin) { c.Key = nil }), nil, taskcatalog.CodePlanInvalid},
	} {
		s, dir := joining(t, row.c, row.labels...)
		_, err := do(t, s)
		if taskcatalog.CodeOf(err, "") != row.code || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", name, err)
		}
		for _, file := range []string{"etc/munge/munge.key", "etc/systemd/system/slurmd.service.d/50-hostler.conf"} {
			if _, err := os.Lstat(filepath.Join(dir, file)); err == nil {
				t.Errorf("%s: %s is written", name, file)
			}
		}
	}
	s, dir := joining(t, aJoin)
	hosttest.Put(t, dir, "etc/passwd", "root:x:0:0:root:/root:/bin/bash\n")
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != command.CodeAccountUnknown {
		t.Errorf("without munge: %v", err)
	}
	s, dir = joining(t, aJoin)
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "etc/munge")); err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != taskcatalog.CodePathRefused {
		t.Errorf("through a link: %v", err)
	}
	k, _ := Lookup("cluster.join")
	if err := k.Check(planned(t, `{"id":"join","kind":"cluster.join","with":{"cluster":"lsf","credential":{"from":"steps.token"}}}`)); err == nil {
		t.Error("a cluster of LSF is joined")
	}
}

func TestOnlyTheClusterSaysThatANodeIsItsMember(t *testing.T) {
	for answer, code := range map[string]taskcatalog.Code{
		`{"state":"member","words":"IDLE+DYNAMIC_NORM"}`:      "",
		`{"state":"joining","words":"UNKNOWN"}`:               CodeNotMember,
		`{"state":"absent","words":"no such node"}`:           CodeNotMember,
		`{"state":"draining","words":"MIXED+DRAIN"}`:          CodeNotMember,
		`{"state":"unknown","words":"another node"}`:          CodeNotMember,
		`{"state":"Member","words":"IDLE"}`:                   CodeNotMember,
		`{"words":"IDLE"}`:                                    taskcatalog.CodeHandlerFailed,
		`member`:                                              taskcatalog.CodeHandlerFailed,
		`{"state":"down","words":"` + "\u001b" + `[2J` + `"}`: taskcatalog.CodeHandlerFailed,
	} {
		h, _ := hosttest.Box(t)
		s := aStep(t, h, "cluster.verify", Args{"cluster": "slurm", "name": "lab"})
		s.Mint = func(context.Context) ([]byte, error) { return []byte(answer), nil }
		proof, err := do(t, s)
		if taskcatalog.CodeOf(err, "") != code || code == "" && proof.Message != "cluster lab says member (IDLE+DYNAMIC_NORM)" {
			t.Errorf("%s: %+v %v", answer, proof, err)
		}
	}
	h, _ := hosttest.Box(t)
	s := aStep(t, h, "cluster.verify", Args{"cluster": "slurm", "name": "lab"})
	away := taskcatalog.Errorf("cluster_unreachable", "away")
	s.Mint = func(context.Context) ([]byte, error) { return nil, away }
	if _, err := do(t, s); err != away {
		t.Errorf("without an answer: %v", err)
	}
}
