package cleanup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

func cleanUp(t *testing.T, h *host.Host, p taskcatalog.StorageCleanupParams) (*taskcatalog.StorageCleanupResult, taskcatalog.Report, error) {
	t.Helper()
	if p.Scope == "" {
		p.Scope = "local"
	}
	result, report, err := Clean(t.Context(), &host.Run{Params: &p, Host: h})
	res, _ := result.(*taskcatalog.StorageCleanupResult)
	return res, report, err
}

func TestACleanupRemovesATenantsThingsAndKeepsTheNodes(t *testing.T) {
	h, dir := hosttest.Used(t)
	private := "tmp/systemd-private-" + strings.ReplaceAll(hosttest.BootID, "-", "") + "-chrony.service-AbC123"
	forged := "tmp/systemd-private-" + strings.ReplaceAll(hosttest.BootID, "-", "") + "-evil.service-AbC123"
	for name, stays := range map[string]bool{
		"tmp/a/b":                           false,
		"tmp/\x1b[2Jname\n":                 false,
		"tmp/.X11-unix/x":                   false,
		private + "/tmp/socket":             true,
		private + "/tmp/strangers":          false,
		forged + "/tmp/x":                   false,
		"tmp/systemd-private-00-old-x/y":    false,
		"var/tmp/x":                         false,
		"dev/shm/x":                         false,
		"dev/shm/kept":                      true,
		"dev/shm/service":                   true,
		"share1/data/x":                     false,
		"share1/lost+found/x":               false,
		"share1/models/x":                   true,
		"shared":                            false,
		"home/brew/x":                       true,
		"home/mallory/.ssh/authorized_keys": false,
		"home/ubuntu/file":                  true,
		"home/ubuntu/.bash_history":         false,
		"root/.bash_history":                false,
		"root/.bashrc":                      true,
		"var/crash/1/dump":                  false,
		"var/crash/kexec_cmd":               true,
		"var/lib/systemd/coredump/core.x":   false,
		"var/cores/core.x.1":                false,
		"var/cores/readme":                  true,
		"core":                              false,
		"var/lib/docker/overlay2/x/diff/y":  false,
		"var/lib/containerd/x":              false,
		"etc/cron.d/job":                    true,
	} {
		hosttest.Put(t, dir, name, "x")
		t.Cleanup(func() {
			if hosttest.There(dir, name) != stays {
				t.Errorf("%q: there %v, want %v", name, !stays, stays)
			}
		})
	}
	hosttest.OK(t, os.Chmod(filepath.Join(dir, private), 0o700))
	hosttest.OK(t, os.Lchown(filepath.Join(dir, private, "tmp/strangers"), 20001, 20001))
	hosttest.OK(t, os.Chmod(filepath.Join(dir, forged), 0o700))
	hosttest.OK(t, os.Lchown(filepath.Join(dir, forged), 20001, 20001))
	hosttest.OK(t, os.Lchown(filepath.Join(dir, "tmp/.X11-unix/x"), 20001, 20001))
	hosttest.OK(t, os.Lchown(filepath.Join(dir, "dev/shm/service"), 1, 1))
	hosttest.OK(t, os.Symlink("../etc", filepath.Join(dir, "home/eve")))
	base := hosttest.Untouched()
	base.Objects = []string{"/dev/shm/kept", "dump//var/crash/kexec_cmd", "dump//var/cores/readme", "scratch//share1/models", "home//home/brew"}
	h.Scratch = []string{"/share*"}
	res, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: base})
	if err != nil || res.Failed != 0 {
		t.Errorf("got %+v, %v\n%+v", res, err, report.Dispositions)
	}
	if res.FilesRemoved == 0 || hosttest.There(dir, "home/eve") || !hosttest.There(dir, "share1/lost+found") || !hosttest.There(dir, "etc/passwd") {
		t.Errorf("got %+v", res)
	}
	for _, d := range report.Dispositions {
		if strings.ContainsAny(d.Path+d.Reason, "\x1b\n") {
			t.Errorf("a control character in %+v", d)
		}
	}
	again, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: base})
	if err != nil || again.FilesRemoved != 0 {
		t.Errorf("the same again removes nothing: %+v, %v\n%+v", again, err, report.Dispositions)
	}
}

func TestACleanupWithoutABaselineTouchesNoHome(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.Put(t, dir, "home/mallory/x", "")
	hosttest.Put(t, dir, "tmp/x", "")
	_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{})
	if err != nil || !hosttest.There(dir, "home/mallory/x") || hosttest.There(dir, "tmp/x") {
		t.Errorf("%v\n%+v", err, report.Dispositions)
	}
	if !slices.ContainsFunc(report.Dispositions, func(d taskcatalog.Disposition) bool {
		return d.Check == "homes" && d.Action == taskcatalog.ActionSkipped
	}) {
		t.Error("does not say so")
	}
}

func TestTheHomeOfALiveAllocationStays(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.Put(t, dir, "home/alice/x", "")
	hosttest.OK(t, h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: 20001, Home: "/home/alice"}))
	if _, _, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: hosttest.Untouched(), AllocationID: "a-1"}); err != nil || !hosttest.There(dir, "home/alice/x") {
		t.Errorf("%v", err)
	}
}

func TestScratchThatReachesTheSystemIsRefusedAndNothingIsChanged(t *testing.T) {
	for _, pattern := range []string{"/", "/*", "/etc", "/usr/*", "/var", "/home", "/va?", "share", "/share/../etc", "/var/lib/*", "/[", "/root"} {
		t.Run(pattern, func(t *testing.T) {
			h, dir := hosttest.Used(t)
			hosttest.Put(t, dir, "usr/bin/x", "")
			hosttest.Put(t, dir, "root/x", "")
			hosttest.Put(t, dir, "tmp/x", "")
			hosttest.Put(t, dir, "var/lib/dpkg/status", "")
			_, _, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: hosttest.Untouched(), Scratch: []string{pattern}})
			if taskcatalog.CodeOf(err, "") != taskcatalog.CodeBadParams || !hosttest.There(dir, "tmp/x") || !hosttest.There(dir, "usr/bin/x") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestScratchThatIsALinkIsRemovedAndNotFollowed(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.OK(t, os.Symlink("etc", filepath.Join(dir, "share")))
	_, _, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: hosttest.Untouched(), Scratch: []string{"/share"}})
	if err != nil || hosttest.There(dir, "share") || !hosttest.There(dir, "etc/passwd") {
		t.Errorf("%v", err)
	}
}

func TestACleanupGoesOnPastWhatFailsAndSaysSo(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.OK(t, os.RemoveAll(filepath.Join(dir, "var/tmp")))
	hosttest.OK(t, os.Symlink("../etc", filepath.Join(dir, "var/tmp"))) // the work of a tenant with root
	hosttest.Put(t, dir, "tmp/x", "")
	hosttest.Put(t, dir, "home/mallory/x", "")
	res, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: hosttest.Untouched()})
	if taskcatalog.CodeOf(err, "") != "storage_not_fully_cleaned" || res.Failed == 0 || !hosttest.There(dir, "etc/passwd") || hosttest.There(dir, "tmp/x") || hosttest.There(dir, "home/mallory") {
		t.Errorf("got %+v, %v\n%+v", res, err, report.Dispositions)
	}
}

// engines is a systemd with container engines, some of them active.
type engines struct {
	hosttest.Systemd
	active map[string]bool
	stop   error
}

func (e *engines) Active(_ context.Context, unit string) (bool, error) { return e.active[unit], nil }

func (e *engines) Stop(_ context.Context, unit string) error {
	if e.stop == nil {
		e.active[unit] = false
	}
	e.Ask("stop " + unit)
	return e.stop
}

func TestContainerRootsAreEmptiedWhileTheirEngineIsStopped(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.Put(t, dir, "var/lib/docker/volumes/v/_data/x", "")
	hosttest.Put(t, dir, "data/engine/x", "")
	// A crash after the stop left containerd stopped: it is enabled and comes back.
	hosttest.Put(t, dir, "etc/systemd/system/multi-user.target.wants/containerd.service", "")
	systemd := &engines{active: map[string]bool{"docker.socket": true, "docker.service": true, "own.service": true}}
	h.Systemd, h.ContainerRoots = systemd, map[string]string{"/data/engine": "own.service"}
	_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: hosttest.Untouched()})
	want := []string{
		"stop docker.socket", "stop docker.service", "stop own.service",
		"start own.service", "start containerd.service", "start docker.service", "start docker.socket",
	}
	if err != nil || !slices.Equal(systemd.Asked, want) || hosttest.There(dir, "var/lib/docker/volumes") || hosttest.There(dir, "data/engine/x") || !hosttest.There(dir, "var/lib/docker") {
		t.Errorf("%v, asked %q\n%+v", err, systemd.Asked, report.Dispositions)
	}
}

func TestContainerRootsStayWhileTheirEngineRuns(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.Put(t, dir, "var/lib/docker/x", "")
	systemd := &engines{active: map[string]bool{"docker.service": true}, stop: errors.New("no")}
	h.Systemd = systemd
	if _, _, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: hosttest.Untouched()}); err == nil || !hosttest.There(dir, "var/lib/docker/x") || !slices.Contains(systemd.Asked, "start docker.service") {
		t.Errorf("%v, asked %q", err, systemd.Asked)
	}
}

func TestACorePatternOfATenantsReachesNothingElse(t *testing.T) {
	for pattern, want := range map[string]string{
		"core":                         "",
		"|/usr/lib/systemd/x %p":       "",
		"/var/cores/core.%e.%p":        "/var/cores/core.*.**",
		"/%e/core":                     "",
		"/etc/core.%p":                 "",
		"/home/ubuntu/%e":              "",
		"/var/x/*/core":                "",
		"/core.%p":                     "",
		"/usr/../var/lib/dpkg/core-%p": "",
		"/var/../etc/core-%p":          "",
		"/var/lib/dpkg/info/core%p":    "/var/lib/dpkg/info/core**", // the name of a dump there, and nothing else
	} {
		if got := coreGlob(pattern); got != want {
			t.Errorf("%q: %q, want %q", pattern, got, want)
		}
	}
}

// TestWhatATenantMountedIsDetachedAndNotEmptied runs on a machine of its own.
func TestWhatATenantMountedIsDetachedAndNotEmptied(t *testing.T) {
	if !hosttest.Jail(t) {
		return
	}
	for _, d := range []string{"/tmp/in", "/var/tmp", "/etc", "/home/mallory/mnt", "/run/netns", "/dev/shm", "/dev/mqueue", "/root", "/precious", "/disk", "/var/lib/docker/overlay2/m"} {
		hosttest.OK(t, os.MkdirAll(d, 0o755))
	}
	hosttest.Put(t, "/", "etc/passwd", "root:x:0:0::/root:/bin/sh\n")
	hosttest.Put(t, "/", "precious/x", "")
	hosttest.Put(t, "/", "home/mallory/x", "")
	hosttest.OK(t, unix.Mount("tmpfs", "/disk", "tmpfs", 0, ""))
	hosttest.OK(t, unix.Mount("mqueue", "/dev/mqueue", "mqueue", 0, ""))
	hosttest.Put(t, "/", "disk/x", "")
	m, err := machine.Open("/")
	hosttest.OK(t, err)
	base := hosttest.Untouched()
	mounts, err := m.Mounts()
	hosttest.OK(t, err)
	base.Mounts = nil
	for _, mt := range mounts {
		base.Mounts = append(base.Mounts, host.MountName(mt))
	}

	// Mounts by which a tenant with root would have the cleanup empty the wrong place, or would
	// hide things.
	bind := func(from, to string) { hosttest.OK(t, unix.Mount(from, to, "", unix.MS_BIND, "")) }
	hosttest.Put(t, "/", "tmp/hidden", "")
	hosttest.Put(t, "/", "tmp/in/deep", "")
	bind("/etc", "/tmp/in")
	bind("/precious", "/tmp")
	bind("/etc", "/tmp") // twice on one point
	bind("/precious", "/home/mallory/mnt")
	bind("/", "/var/tmp")
	bind("/precious", "/var/lib/docker/overlay2/m")
	hosttest.Put(t, "/", "run/netns/evil", "")
	hosttest.OK(t, besideMain(func() error { // a thread in a network namespace of its own, which ends with the thread
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", "/run/netns/evil", "", unix.MS_BIND, "")
	}))
	if host, err := m.NetNS(1); err != nil || host == "" {
		t.Fatal(host, err)
	}
	// Objects in the kernel.
	queue, err := os.Create("/dev/mqueue/q") // a file created there is a queue
	hosttest.OK(t, err)
	queue.Close()
	shm, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	hosttest.OK(t, err)
	var about unix.SysvShmDesc
	_, err = unix.SysvShmCtl(shm, unix.IPC_STAT, &about)
	hosttest.OK(t, err)
	about.Perm.Uid = 20001
	_, err = unix.SysvShmCtl(shm, unix.IPC_SET, &about)
	hosttest.OK(t, err)
	// Immutable and append-only files and directories.
	hosttest.Put(t, "/", "home/mallory/frozen/x", "")
	for _, name := range []string{"/home/mallory/frozen/x", "/home/mallory/frozen"} {
		f, err := os.Open(name)
		hosttest.OK(t, err)
		hosttest.OK(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0x10))
		f.Close()
	}
	if err := os.Remove("/home/mallory/frozen/x"); err == nil {
		t.Fatal("the file is not immutable: the test proves nothing")
	}

	store := &hosttest.Ledger{}
	h := &host.Host{Machine: m, Now: time.Now, Log: zap.NewNop(), Accounts: store, Marks: store, Systemd: &hosttest.Systemd{}}
	res, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: base, Scratch: []string{"/disk"}})
	if err != nil {
		t.Errorf("%+v, %v\n%+v", res, err, report.Dispositions)
	}
	for _, name := range []string{"etc/passwd", "precious/x", "tmp", "disk"} {
		if !hosttest.There("/", name) {
			t.Errorf("%s is gone", name)
		}
	}
	for _, name := range []string{"tmp/hidden", "tmp/in", "home/mallory", "run/netns/evil", "disk/x", "dev/mqueue/q", "var/lib/docker/overlay2", "var/tmp/etc"} {
		if hosttest.There("/", name) {
			t.Errorf("%s is still there", name)
		}
	}
	if left, err := m.SysVIPC(); err != nil || len(left) != 0 {
		t.Errorf("System V objects are left: %+v, %v", left, err)
	}
	if now, err := m.Mounts(); err != nil || len(now) != len(mounts) {
		t.Errorf("mounts %+v, %v", now, err)
	}
}

// besideMain runs f on a thread of its own, other than the process's first thread: /proc shows the
// namespaces of the first thread as those of the process.
func besideMain(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // held until f has run elsewhere
			done <- besideMain(f)
			runtime.UnlockOSThread()
			return
		}
		done <- f()
	}()
	return <-done
}

// A cleanup leaves no tenant's file in lost+found, and reports directories that it cannot remove.
func TestACleanupTellsOfADirectoryThatHoldsAnothersEntry(t *testing.T) {
	h, dir := hosttest.Used(t)
	private := "tmp/systemd-private-" + strings.ReplaceAll(hosttest.BootID, "-", "") + "-chrony.service-AbC123"
	hosttest.Put(t, dir, private+"/tmp/strangers/of-root", "x")
	hosttest.OK(t, os.Chmod(filepath.Join(dir, private), 0o700))
	hosttest.OK(t, os.Lchown(filepath.Join(dir, private, "tmp/strangers"), hosttest.AttackerUID, hosttest.AttackerUID))
	hosttest.OK(t, os.MkdirAll(filepath.Join(dir, "tmp/lost+found"), 0o700))
	hosttest.Put(t, dir, "tmp/lost+found/#12", "x")
	res, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: hosttest.Untouched()})
	if err == nil || res.Failed != 1 || hosttest.There(dir, "tmp/lost+found/#12") || !hosttest.There(dir, "tmp/lost+found") {
		t.Errorf("got %+v, %v", res, err)
	}
	if !slices.ContainsFunc(report.Dispositions, func(d taskcatalog.Disposition) bool {
		return d.Action == taskcatalog.ActionFailed && d.Path == "/"+private+"/tmp/strangers"
	}) {
		t.Errorf("nobody is told: %+v", report.Dispositions)
	}
}
