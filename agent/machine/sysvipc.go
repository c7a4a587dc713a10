package machine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// IPC is one System V object: a shared-memory segment, a semaphore set or a
// message queue.
type IPC struct {
	Kind  string // shm, sem or msg
	ID    int
	UID   uint32 // owner
	CUID  uint32 // creator: an owner may be changed, a creator may not
	Bytes int64  // of shm and msg
}

// ipcTables are the kinds with where the kernel lists them and which columns
// count, and the command that removes one.
var ipcTables = []struct {
	kind, file string
	id, bytes  string // the columns with the number and the size; empty: none
	remove     func(id int) error
}{
	{"shm", "/proc/sysvipc/shm", "shmid", "size", func(id int) error {
		_, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	}},
	{"sem", "/proc/sysvipc/sem", "semid", "", func(id int) error { return ipcRemove(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID) }},
	{"msg", "/proc/sysvipc/msg", "msqid", "cbytes", func(id int) error { return ipcRemove(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0) }},
}

func ipcRemove(call uintptr, id, second, third int) error {
	if _, _, errno := unix.Syscall(call, uintptr(id), uintptr(second), uintptr(third)); errno != 0 {
		return errno
	}
	return nil
}

// SysVIPC lists the System V objects of the IPC namespace.
func (m *Machine) SysVIPC() ([]IPC, error) {
	var all []IPC
	for _, t := range ipcTables {
		raw, err := m.ReadFile(t.file, 4<<20)
		if err != nil {
			return nil, fmt.Errorf("cannot list System V %s: %w", t.kind, err)
		}
		found, err := parseSysVIPC(string(raw), t.kind, t.id, t.bytes)
		if err != nil {
			return nil, fmt.Errorf("cannot parse %s: %w", t.file, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// parseSysVIPC reads a table of /proc/sysvipc by the names in its first line:
// the columns differ between kernels.
func parseSysVIPC(text, kind, id, bytes string) ([]IPC, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	column := map[string]int{}
	for i, name := range strings.Fields(lines[0]) {
		column[name] = i
	}
	var all []IPC
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		number := func(name string, bits int) (uint64, error) {
			at, ok := column[name]
			if !ok || at >= len(f) {
				return 0, fmt.Errorf("no column %s", name)
			}
			return strconv.ParseUint(f[at], 10, bits)
		}
		num, err1 := number(id, 31)
		uid, err2 := number("uid", 32)
		cuid, err3 := number("cuid", 32)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		o := IPC{Kind: kind, ID: int(num), UID: uint32(uid), CUID: uint32(cuid)}
		if bytes != "" {
			if n, err := number(bytes, 63); err == nil {
				o.Bytes = int64(n)
			}
		}
		all = append(all, o)
	}
	return all, nil
}

// RemoveIPC removes a System V object of this process's IPC namespace. One
// that is gone is no error.
func RemoveIPC(o IPC) error {
	for _, t := range ipcTables {
		if t.kind != o.Kind {
			continue
		}
		if err := t.remove(o.ID); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EIDRM) {
			return fmt.Errorf("cannot remove %s %d: %w", o.Kind, o.ID, err)
		}
		return nil
	}
	return fmt.Errorf("cannot remove an object of kind %q", o.Kind)
}
