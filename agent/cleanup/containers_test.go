package cleanup

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

func TestEachEngineIsStoppedBeforeItsRootIsEmptiedAndStartedAfter(t *testing.T) {
	for _, engine := range []struct {
		root  string
		units []string // in the order in which they stop
	}{
		{"/var/lib/docker", []string{"docker.socket", "docker.service"}},
		{"/var/lib/containerd", []string{"docker.socket", "docker.service", "containerd.service"}},
		{"/var/lib/containers/storage", []string{"podman.socket", "podman.service"}},
		{"/var/lib/containers/storage", []string{"kubelet.service", "crio.service"}},
		{"/var/lib/kubelet/pods", []string{"kubelet.service", "containerd.service"}},
		{"/var/lib/lxd/containers", []string{"lxd.socket", "lxd.service"}},
	} {
		t.Run(strings.Join(engine.units, ","), func(t *testing.T) {
			h, dir := hosttest.Used(t)
			hosttest.Put(t, dir, engine.root+"/overlay/x", "")
			systemd := &engines{active: map[string]bool{}}
			var want []string
			for _, unit := range engine.units {
				systemd.active[unit] = true
				want = append(want, "stop "+unit)
			}
			for _, unit := range slices.Backward(engine.units) {
				want = append(want, "start "+unit)
			}
			h.Systemd = systemd
			_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: hosttest.Untouched()})
			if err != nil || !slices.Equal(systemd.Asked, want) || hosttest.There(dir, engine.root+"/overlay") {
				t.Errorf("%v, asked %q, want %q\n%+v", err, systemd.Asked, want, report.Dispositions)
			}
		})
	}
}

func TestARootThatIsALinkIsNotFollowedAndTheRestIsCleaned(t *testing.T) {
	for _, tc := range []struct {
		name, to   string
		configured string
		action     string
		says       string
		emptied    bool
	}{
		{"moved by the operator", "/data/docker", "/data/docker", taskcatalog.ActionSkipped, "configured root", true},
		{"moved by the operator, relative", "../../data/docker", "/data/docker", taskcatalog.ActionSkipped, "configured root", true},
		{"not configured", "/data/docker", "", taskcatalog.ActionFailed, "add /data/docker to container_roots", false},
		{"another is configured", "/data/docker", "/data/other", taskcatalog.ActionFailed, "add /data/docker to container_roots", false},
		{"a tenant's", "/etc", "", taskcatalog.ActionFailed, "does not follow", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, dir := hosttest.Used(t)
			hosttest.Put(t, dir, "data/docker/volumes/v/x", "")
			hosttest.Put(t, dir, "var/lib/containerd/x", "")
			hosttest.Put(t, dir, "tmp/x", "")
			hosttest.OK(t, os.Symlink(tc.to, filepath.Join(dir, "var/lib/docker")))
			if tc.configured != "" {
				h.ContainerRoots = map[string]string{tc.configured: "docker.service"}
			}
			_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: hosttest.Untouched()})
			if failed := tc.action == taskcatalog.ActionFailed; failed != (taskcatalog.CodeOf(err, "") == "storage_not_fully_cleaned") {
				t.Errorf("got %v", err)
			}
			if !slices.ContainsFunc(report.Dispositions, func(d taskcatalog.Disposition) bool {
				return d.Path == "/var/lib/docker" && d.Action == tc.action && strings.Contains(d.Reason, tc.says)
			}) {
				t.Errorf("does not say %s: %+v", tc.says, report.Dispositions)
			}
			if hosttest.There(dir, "data/docker/volumes") == tc.emptied || hosttest.There(dir, "var/lib/containerd/x") || hosttest.There(dir, "tmp/x") || !hosttest.There(dir, "etc/passwd") || !hosttest.There(dir, "var/lib/docker") {
				t.Errorf("followed, or the rest was left: %+v", report.Dispositions)
			}
		})
	}
}

// fakeDocker serves dockerd's API on the machine's socket and records the removals asked for.
func fakeDocker(t *testing.T, dir string, list http.HandlerFunc) *[]string {
	t.Helper()
	hosttest.OK(t, os.MkdirAll(filepath.Join(dir, "run"), 0o755))
	// By descriptor: the directory's own path is too long for a socket address.
	d, err := os.Open(filepath.Join(dir, "run"))
	hosttest.OK(t, err)
	defer d.Close()
	l, err := net.Listen("unix", "/proc/self/fd/"+strconv.Itoa(int(d.Fd()))+"/docker.sock")
	hosttest.OK(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	var asked []string
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			list(w, r)
		case r.URL.Path == "/swarm/leave":
			w.WriteHeader(http.StatusServiceUnavailable) // the engine is in no swarm
		default:
			asked = append(asked, r.Method+" "+r.URL.String())
			w.WriteHeader(http.StatusNoContent)
		}
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-served })
	return &asked
}

func TestARunningDockerdTakesDownWhatItSetUp(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.Put(t, dir, "var/lib/docker/x", "")
	asked := fakeDocker(t, dir, func(w http.ResponseWriter, r *http.Request) {
		id := "c1"
		if r.URL.Path == "/networks" {
			id = "n1"
			if r.URL.Query().Get("filters") != `{"type":["custom"]}` {
				t.Errorf("asked for %s: the engine's own networks are not to be removed", r.URL)
			}
		}
		_ = json.NewEncoder(w).Encode([]map[string]any{{"Id": id}, {"Id": "../etc?x"}})
	})
	h.Systemd = &engines{active: map[string]bool{"docker.service": true}}
	_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: hosttest.Untouched()})
	want := []string{"DELETE /containers/c1?force=1&v=1", "DELETE /containers/..%2Fetc%3Fx?force=1&v=1", "DELETE /networks/n1", "DELETE /networks/..%2Fetc%3Fx"}
	if err != nil || !slices.Equal(*asked, want) || hosttest.There(dir, "var/lib/docker/x") {
		t.Errorf("%v, asked %q\n%+v", err, *asked, report.Dispositions)
	}
}

func TestWhatDockerdAnswersStopsNoCleanup(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"no JSON":         func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("\x1b[2J{")) },
		"another type":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"message":1}`)) },
		"a refusal":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"an endless list": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(slices.Repeat([]byte("["), 17<<20)) },
		"a broken answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := hosttest.Used(t)
			hosttest.Put(t, dir, "var/lib/docker/x", "")
			fakeDocker(t, dir, answer)
			h.Systemd = &engines{active: map[string]bool{"docker.service": true}}
			_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: hosttest.Untouched()})
			if err != nil || hosttest.There(dir, "var/lib/docker/x") || !slices.ContainsFunc(report.Dispositions, func(d taskcatalog.Disposition) bool {
				return d.Path == DockerUnit && d.Action == taskcatalog.ActionSkipped && !strings.ContainsAny(d.Reason, "\x1b")
			}) {
				t.Errorf("%v\n%+v", err, report.Dispositions)
			}
		})
	}
}

func TestASocketThatIsNotRootsIsNotDockerd(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, dir string){
		"another user's": func(t *testing.T, dir string) {
			hosttest.OK(t, os.Lchown(filepath.Join(dir, "run/docker.sock"), 20001, 20001))
		},
		"a link": func(t *testing.T, dir string) {
			hosttest.OK(t, os.Rename(filepath.Join(dir, "run/docker.sock"), filepath.Join(dir, "tmp/sock")))
			hosttest.OK(t, os.Symlink("../tmp/sock", filepath.Join(dir, "run/docker.sock")))
		},
		"a file": func(t *testing.T, dir string) {
			hosttest.OK(t, os.Remove(filepath.Join(dir, "run/docker.sock")))
			hosttest.Put(t, dir, "run/docker.sock", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := hosttest.Used(t)
			fakeDocker(t, dir, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
			plant(t, dir)
			conn, err := h.Machine.DialSocket(t.Context(), dockerSocket)
			if err == nil {
				conn.Close()
				t.Error("connected")
			}
		})
	}
}

// processOf puts a process into a machine's /proc.
func processOf(t *testing.T, dir string, pid, ppid int, name, exe, cgroup string) {
	t.Helper()
	at := "proc/" + strconv.Itoa(pid) + "/"
	hosttest.Put(t, dir, at+"stat", strconv.Itoa(pid)+" ("+name+") S "+strconv.Itoa(ppid)+" 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0\n")
	hosttest.Put(t, dir, at+"status", "Name:\t"+name+"\nUid:\t0\t0\t0\t0\n")
	hosttest.Put(t, dir, at+"cgroup", "0::"+cgroup+"\n")
	hosttest.OK(t, os.Symlink(exe, filepath.Join(dir, at+"exe")))
}

func TestWhatRunsInAContainerIsToldFromWhatOnlySaysSo(t *testing.T) {
	h, dir := hosttest.Used(t)
	id := strings.Repeat("0123456789abcdef", 4)
	want := map[int]string{}
	for _, p := range []struct {
		pid, ppid         int
		name, exe, cgroup string
		is                string
	}{
		{100, 1, "containerd-shim", "/usr/bin/containerd-shim-runc-v2", "/system.slice/containerd.service", "watches"},
		{101, 100, "planted", "/planted", "/default/c", "inside"},
		{102, 101, "child", "/planted", "/default/c", "inside"},
		{103, 1, "orphan", "/planted", "/default/c", "inside"}, // the parent ended: only the cgroup proves the container
		{110, 1, "sleep", "/usr/bin/sleep", "/system.slice/docker-" + id + ".scope", "inside"},
		{111, 1, "sleep", "/usr/bin/sleep", "/docker/" + id, "inside"},
		{112, 1, "sleep", "/usr/bin/sleep", "/machine.slice/libpod-" + id + ".scope/container", "inside"},
		{113, 1, "sleep", "/usr/bin/sleep", "/kubepods.slice/kubepods-besteffort.slice/crio-" + id + ".scope", "inside"},
		{120, 1, "conmon", "/usr/bin/conmon", "/machine.slice/libpod-conmon-" + id + ".scope", "watches"},
		{121, 120, "podman", "/usr/bin/podman", "/machine.slice/libpod-conmon-" + id + ".scope", "watches"},
		{130, 1, "containerd-shim", "/tmp/containerd-shim", "/user.slice/x.scope", ""},        // a tenant's, and no shim
		{131, 130, "bash", "/usr/bin/bash", "/own/x", ""},                                     // a child of the false shim
		{140, 1, "conmon", "/usr/bin/python3", "/system.slice/fake.service", "watches"},       // a forged watcher
		{141, 140, "sleep", "/usr/bin/sleep", "/system.slice/ssh.service", "inside"},          // with a child in sshd's cgroup
		{142, 1, "sshd", "/usr/sbin/sshd", "/system.slice/ssh.service", ""},                   // does not reach sshd
		{150, 1, "dockerd", "/usr/sbin/dockerd", "/system.slice/docker.service", ""},          // systemd stops engines
		{151, 1, "sleep", "/usr/bin/sleep", "/system.slice/docker-" + id[:63] + ".scope", ""}, // not a full id
		{152, 1, "sleep", "/usr/bin/sleep", "/system.slice/docker-" + id + ".service", ""},    // a service is no container
		{153, 1, "containerd", "/usr/bin/containerd", "/system.slice/containerd.service", ""}, // beside the shim
		{154, 1, "conmonitor", "/usr/bin/conmonitor", "/system.slice/conmonitor.service", ""}, // another name
		{155, 151, "sleep", "/usr/bin/sleep", "/system.slice/default/c", ""},                  // another c
		{160, 161, "loop", "/usr/bin/loop", "/", ""},
		{161, 160, "loop", "/usr/bin/loop", "/", ""}, // no way up
	} {
		processOf(t, dir, p.pid, p.ppid, p.name, p.exe, p.cgroup)
		want[p.pid] = p.is
	}
	c := &cleanup{Run: &host.Run{Host: h}, m: h.Machine}
	inside, watching, err := c.inContainers()
	hosttest.OK(t, err)
	all, err := h.Machine.Processes()
	hosttest.OK(t, err)
	if len(all) != len(want) {
		t.Fatalf("%d processes, not %d", len(all), len(want))
	}
	for _, p := range all {
		got := ""
		switch {
		case watching(p):
			got = "watches"
		case inside(p):
			got = "inside"
		}
		if got != want[p.PID] || watching(p) && !inside(p) {
			t.Errorf("%d %s: %q, want %q", p.PID, p.Name, got, want[p.PID])
		}
	}
}

// TestWhatTheBaselineHasMountedInARootIsEmptied runs on a machine of its own.
func TestWhatTheBaselineHasMountedInARootIsEmptied(t *testing.T) {
	if !hosttest.Jail(t) {
		return
	}
	for _, d := range []string{"/tmp", "/var/tmp", "/etc", "/precious/overlay", "/var/lib/containers/storage/overlay", "/var/lib/docker/volumes"} {
		hosttest.OK(t, os.MkdirAll(d, 0o755))
	}
	hosttest.Put(t, "/", "etc/passwd", "root:x:0:0::/root:/bin/sh\n")
	// As podman does when it starts, and as an operator does with a disk for volumes.
	hosttest.OK(t, unix.Mount("/var/lib/containers/storage/overlay", "/var/lib/containers/storage/overlay", "", unix.MS_BIND, ""))
	hosttest.OK(t, unix.Mount("tmpfs", "/var/lib/docker/volumes", "tmpfs", 0, ""))
	m, err := machine.Open("/")
	hosttest.OK(t, err)
	mounts, err := m.Mounts()
	hosttest.OK(t, err)
	base := hosttest.Untouched()
	base.Mounts = nil
	for _, mt := range mounts {
		base.Mounts = append(base.Mounts, host.MountName(mt))
	}
	hosttest.Put(t, "/", "var/lib/containers/storage/overlay/layer/diff/x", "")
	hosttest.Put(t, "/", "var/lib/docker/volumes/v/_data/x", "")
	// A tenant mounts over a directory above the root.
	hosttest.Put(t, "/", "precious/overlay/x", "")
	hosttest.OK(t, unix.Mount("/precious", "/var/lib/containers/storage", "", unix.MS_BIND, ""))

	store := &hosttest.Ledger{}
	h := &host.Host{Machine: m, Now: time.Now, Log: zap.NewNop(), Accounts: store, Marks: store, Systemd: &hosttest.Systemd{}}
	_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: base})
	if err != nil || !hosttest.There("/", "precious/overlay/x") || hosttest.There("/", "var/lib/containers/storage/overlay/layer") || hosttest.There("/", "var/lib/docker/volumes/v") {
		t.Errorf("%v\n%+v", err, report.Dispositions)
	}
	if now, err := m.Mounts(); err != nil || len(now) != len(mounts) {
		t.Errorf("mounts %+v, %v", now, err)
	}
}
