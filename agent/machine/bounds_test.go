package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// No tenant can hide another tenant's things by making a list long.

// A list of 10,000 groups makes /proc/PID/status longer than 64 KiB.
func TestAProcessWithTenThousandGroupsIsListedAndHidesNoOther(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give a process groups")
	}
	groups := make([]uint32, 10_000)
	for i := range groups {
		groups[i] = uint32(1_000_000 + i)
	}
	const uid = 20077
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	m, err := Open("/")
	must(t, err)
	defer m.Close()
	all, err := m.Processes()
	must(t, err)
	i := slices.IndexFunc(all, func(p Process) bool { return p.PID == cmd.Process.Pid })
	if i < 0 || !all[i].Has(uid) || all[i].Unread != nil {
		t.Fatalf("the process is not listed as it is, among %d", len(all))
	}
}

func TestAProcessThatCannotBeReadHidesNoOther(t *testing.T) {
	m, dir := newMachine(t)
	for _, pid := range []int{7, 8, 9} {
		own := filepath.Join(dir, "proc", fmt.Sprint(pid))
		write(t, own+"/stat", fmt.Sprintf("%d (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0", pid))
		if pid == 8 {
			must(t, os.MkdirAll(own+"/status", 0o755))
			continue
		}
		write(t, own+"/status", "Name:\tx\nUid:\t5\t5\t5\t5\n")
	}
	all, err := m.Processes()
	must(t, err)
	var got []string
	for _, p := range all {
		got = append(got, fmt.Sprint(p.PID, p.Has(5), p.Unread != nil))
	}
	slices.Sort(got)
	if want := []string{"7 true false", "8 false true", "9 true false"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

// The kernel allows 100,000 mounts, and an overlay's list of layers has no bound.
func TestALongMountTableIsReadWhole(t *testing.T) {
	m, dir := newMachine(t)
	var table strings.Builder
	table.WriteString("22 1 254:1 / / rw - ext4 /dev/vda1 rw\n")
	const many, long = 100_000, 1 << 20
	for i := range many {
		fmt.Fprintf(&table, "%d 22 0:%d / /home/alice/%s/%d rw,nosuid,nodev,relatime - tmpfs tmpfs rw,size=1k\n", i+23, i+1, strings.Repeat("d", 120), i)
	}
	fmt.Fprintf(&table, "7 22 0:70 / /srv/layers rw - overlay overlay rw,lowerdir=%s\n", strings.Repeat("/l:", long/3))
	fmt.Fprintf(&table, "8 22 0:71 / /home/alice/%s rw - tmpfs tmpfs rw\n", strings.Repeat(`\040`, long/4))
	table.WriteString("9 22 0:72 / /home/bob/mnt rw - fuse.sshfs bob@host: rw,user_id=20002,group_id=20002\n")
	for _, of := range []string{"1", "self"} {
		write(t, filepath.Join(dir, "proc", of, "mountinfo"), table.String())
	}
	all, err := m.Mounts()
	must(t, err)
	if len(all) != many+4 || all[many+1].Point != "/srv/layers" || all[many+1].Type != "overlay" {
		t.Fatalf("%d mounts are read, want %d", len(all), many+4)
	}
	if got := all[many+2]; got.Type != "tmpfs" || !Under(got.Point, "/home/alice") || len(got.Point) > maxField {
		t.Errorf("the mount at a path of %d bytes is read as one of type %q at %d bytes", long, got.Type, len(got.Point))
	}
	if got := all[many+3]; got.Point != "/home/bob/mnt" || got.User != "20002" {
		t.Errorf("what follows is read as %+v", got)
	}
	local, err := m.LocalMounts()
	if err != nil || len(local) != many+3 {
		t.Errorf("%d local mounts are read: %v", len(local), err)
	}
}

// Every user may create 32,000 message queues.
func TestALongTableOfQueuesOrSocketsIsReadWhole(t *testing.T) {
	m, dir := newMachine(t)
	const many = 50_000
	var queues, sockets strings.Builder
	queues.WriteString("key msqid perms cbytes qnum lspid lrpid uid gid cuid cgid stime rtime ctime\n")
	sockets.WriteString("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n")
	for i := range many {
		fmt.Fprintf(&queues, "%10d %10d  %4o  %10d %10d %5d %5d %5d %5d %5d %5d %10d %10d %10d\n", 0, i, 0o666, 0, 0, 0, 0, 20001, 20001, 20001, 20001, 0, 0, 1_700_000_000)
	}
	for i := range 10 * many {
		fmt.Fprintf(&sockets, "%4d: 0100007F:%04X 0100007F:0050 01 00000000:00000000 00:00000000 00000000 20001        0 %d 1 0000000000000000 20 4 30 10 -1\n", i, i%65536, i+1)
	}
	sockets.WriteString("   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 20001        0 77 1 0000000000000000 100 0 0 10 0\n")
	write(t, filepath.Join(dir, "proc/sysvipc/msg"), queues.String())
	write(t, filepath.Join(dir, "proc/sysvipc/shm"), "key shmid size uid cuid\n")
	write(t, filepath.Join(dir, "proc/sysvipc/sem"), "key semid uid cuid\n")
	write(t, filepath.Join(dir, "proc/1/net/tcp"), sockets.String())
	write(t, filepath.Join(dir, "proc/1/net/udp"), "  sl  local_address\n")
	if got, err := m.SysVIPC(); err != nil || len(got) != many {
		t.Errorf("%d queues are read: %v", len(got), err)
	}
	got, err := m.Listeners()
	if err != nil || len(got) != 1 || got[0].Name() != "tcp/8080" || got[0].Inode != 77 {
		t.Errorf("of %d MiB of sockets %+v is read: %v", sockets.Len()>>20, got, err)
	}
}

func TestAPatternThatMatchesTooMuchSaysSo(t *testing.T) {
	m, dir := newMachine(t)
	must(t, os.MkdirAll(filepath.Join(dir, "share1/scratch"), 0o755))
	for i := range maxGlob {
		write(t, filepath.Join(dir, "share2", fmt.Sprint(i)), "")
	}
	if got, err := m.Glob("/share*/*"); err == nil || len(got) != maxGlob {
		t.Errorf("%d paths are found: %v", len(got), err)
	}
	if got, err := m.Glob("/share1/*"); err != nil || !slices.Equal(got, []string{"/share1/scratch"}) {
		t.Errorf("found %q: %v", got, err)
	}
}
