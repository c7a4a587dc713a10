package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
)

// Any user may run the persistence daemon's program with other code inside.
func TestADaemonThatKeepsGPUsUpIsItsOwnUsersOrRoots(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root starts processes of others")
	}
	m, err := machine.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	program, err := exec.LookPath("sleep")
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		t.Fatal(err)
	}
	was := keepers
	t.Cleanup(func() { keepers = was })
	for name, c := range map[string]struct {
		program, user string
		uid           uint32
		keeps         bool
	}{
		"root's":                        {program, "nobody", 0, true},
		"the daemon's own user's":       {program, "nobody", 65534, true},
		"another user's":                {program, "nobody", 65533, false},
		"one without a user of its own": {program, "", 65534, false},
		"its user is no account":        {program, "nobody-of-all", 65534, false},
		"another program":               {"/usr/bin/nvidia-persistenced", "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			keepers = []struct{ program, user string }{{c.program, c.user}}
			cmd := exec.CommandContext(t.Context(), program, "600")
			cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
			for end := time.Now().Add(time.Minute); time.Now().Before(end); runtime.Gosched() {
				if exe, err := m.Exe(cmd.Process.Pid); err == nil && exe == program {
					break
				}
			}
			if got := isKeeper(m, gpu.Opener{PID: cmd.Process.Pid, Nodes: []string{"/dev/nvidiactl"}}); got != c.keeps {
				t.Errorf("keeps up is %t", got)
			}
			if isKeeper(m, gpu.Opener{PID: cmd.Process.Pid, Unseen: "not all of it"}) {
				t.Error("one that was not seen whole keeps up")
			}
		})
	}
}
