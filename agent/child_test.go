package agent

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a child the leader of a process group that is killed with the child's context.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

func alive(group int) bool { return syscall.Kill(-group, 0) == nil }
