package gpu

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
)

// WithoutOwnHelpers removes the agent's other helpers from a library's list of processes: the
// library lists each helper because it asked. A process not started by the agent is no helper,
// whatever it runs. A process that ended between the list and the check is recognised by a second
// list, which no longer contains it.
func WithoutOwnHelpers(list func() ([]Holder, error)) ([]Holder, error) {
	held, err := list()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(held, func(h Holder) bool { return !running(h.PID) }) {
		again, err := list()
		if err != nil {
			return nil, err
		}
		held = slices.DeleteFunc(held, func(h Holder) bool {
			return !running(h.PID) && !slices.ContainsFunc(again, func(o Holder) bool { return o.PID == h.PID })
		})
	}
	return slices.DeleteFunc(held, func(h Holder) bool { return helper(h.PID) }), nil
}

func proc(pid uint32, name string) string {
	return "/proc/" + strconv.FormatUint(uint64(pid), 10) + "/" + name
}

func running(pid uint32) bool {
	_, err := os.Lstat(proc(pid, "stat"))
	return err == nil
}

// helper reports whether a process is this process, or a child of the same agent that runs the same
// file.
func helper(pid uint32) bool {
	if pid == uint32(os.Getpid()) {
		return true
	}
	// A child of process 1 may be anyone's orphan.
	agent := os.Getppid()
	if agent <= 1 || parent(pid) != agent {
		return false
	}
	ours, err1 := os.Stat("/proc/self/exe")
	its, err2 := os.Stat(proc(pid, "exe"))
	return err1 == nil && err2 == nil && os.SameFile(ours, its)
}

// parent is the parent's process id; 0 if unknown.
func parent(pid uint32) int {
	raw, err := os.ReadFile(proc(pid, "stat"))
	if err != nil {
		return 0
	}
	// The name may hold anything, parentheses too.
	f := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(f) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(f[1])
	return ppid
}
