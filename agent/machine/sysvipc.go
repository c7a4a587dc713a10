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
	CUID  uint32 // creator: the owner may change, the creator may not
	Bytes int64  // of shm and msg
}

// ipcTables are the kinds, each with the file in which the kernel lists its objects, the columns to
// read, and the call that removes an object.
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
		table := ipcTable{kind: t.kind, id: t.id, bytes: t.bytes}
		err := m.lines(t.file, func(line []byte) error {
			o, err := table.parse(string(line))
			if err != nil {
				return fmt.Errorf("cannot parse %s: %w", t.file, err)
			}
			if o != nil {
				all = append(all, *o)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("cannot list System V %s: %w", t.kind, err)
		}
		if table.column == nil {
			return nil, fmt.Errorf("cannot list System V %s: %s is empty", t.kind, t.file)
		}
	}
	return all, nil
}

// ipcTable reads a table of /proc/sysvipc by the column names in the first line: the columns differ
// between kernels.
type ipcTable struct {
	kind, id, bytes string
	column          map[string]int
}

// parse reads a line; nil for the first.
func (t *ipcTable) parse(line string) (*IPC, error) {
	f := strings.Fields(line)
	if t.column == nil {
		t.column = map[string]int{}
		for i, name := range f {
			t.column[name] = i
		}
		return nil, nil
	}
	number := func(name string, bits int) (uint64, error) {
		at, ok := t.column[name]
		if !ok || at >= len(f) {
			return 0, fmt.Errorf("no column %s", name)
		}
		return strconv.ParseUint(f[at], 10, bits)
	}
	num, err1 := number(t.id, 31)
	uid, err2 := number("uid", 32)
	cuid, err3 := number("cuid", 32)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	o := IPC{Kind: t.kind, ID: int(num), UID: uint32(uid), CUID: uint32(cuid)}
	if t.bytes != "" {
		if n, err := number(t.bytes, 63); err == nil {
			o.Bytes = int64(n)
		}
	}
	return &o, nil
}

// RemoveIPC removes a System V object of this process's IPC namespace. A missing object is no
// error.
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
