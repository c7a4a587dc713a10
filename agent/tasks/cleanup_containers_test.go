package tasks

import (
	"context"
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
			h, dir := used(t)
			put(t, dir, engine.root+"/overlay/x", "")
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
			_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: untouched()})
			if err != nil || !slices.Equal(systemd.asked, want) || there(dir, engine.root+"/overlay") {
				t.Errorf("%v, asked %q, want %q\n%+v", err, systemd.asked, want, report.Dispositions)
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
		{"not configured", "/data/docker", "", taskcatalog.ActionFailed, "name /data/docker under container_roots", false},
		{"another is configured", "/data/docker", "/data/other", taskcatalog.ActionFailed, "name /data/docker under container_roots", false},
		{"a tenant's", "/etc", "", taskcatalog.ActionFailed, "not followed", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, dir := used(t)
			put(t, dir, "data/docker/volumes/v/x", "")
			put(t, dir, "var/lib/containerd/x", "")
			put(t, dir, "tmp/x", "")
			ok(t, os.Symlink(tc.to, filepath.Join(dir, "var/lib/docker")))
			if tc.configured != "" {
				h.ContainerRoots = map[string]string{tc.configured: "docker.service"}
			}
			_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: untouched()})
			if failed := tc.action == taskcatalog.ActionFailed; failed != (taskcatalog.CodeOf(err, "") == "storage_not_fully_cleaned") {
				t.Errorf("got %v", err)
			}
			if !slices.ContainsFunc(report.Dispositions, func(d taskcatalog.Disposition) bool {
				return d.Path == "/var/lib/docker" && d.Action == tc.action && strings.Contains(d.Reason, tc.says)
			}) {
				t.Errorf("does not say %s: %+v", tc.says, report.Dispositions)
			}
			if there(dir, "data/docker/volumes") == tc.emptied || there(dir, "var/lib/containerd/x") || there(dir, "tmp/x") || !there(dir, "etc/passwd") || !there(dir, "var/lib/docker") {
				t.Errorf("followed, or the rest was left: %+v", report.Dispositions)
			}
		})
	}
}

// fakeDocker serves dockerd's API on the machine's socket and records the removals asked for.
func fakeDocker(t *testing.T, dir string, list http.HandlerFunc) *[]string {
	t.Helper()
	ok(t, os.MkdirAll(filepath.Join(dir, "run"), 0o755))
	// By descriptor: the directory's own path is too long for a socket address.
	d, err := os.Open(filepath.Join(dir, "run"))
	ok(t, err)
	defer d.Close()
	l, err := net.Listen("unix", "/proc/self/fd/"+strconv.Itoa(int(d.Fd()))+"/docker.sock")
	ok(t, err)
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
	h, dir := used(t)
	put(t, dir, "var/lib/docker/x", "")
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
	_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: untouched()})
	want := []string{"DELETE /containers/c1?force=1&v=1", "DELETE /containers/..%2Fetc%3Fx?force=1&v=1", "DELETE /networks/n1", "DELETE /networks/..%2Fetc%3Fx"}
	if err != nil || !slices.Equal(*asked, want) || there(dir, "var/lib/docker/x") {
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
			h, dir := used(t)
			put(t, dir, "var/lib/docker/x", "")
			fakeDocker(t, dir, answer)
			h.Systemd = &engines{active: map[string]bool{"docker.service": true}}
			_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: untouched()})
			if err != nil || there(dir, "var/lib/docker/x") || !slices.ContainsFunc(report.Dispositions, func(d taskcatalog.Disposition) bool {
				return d.Path == dockerUnit && d.Action == taskcatalog.ActionSkipped && !strings.ContainsAny(d.Reason, "\x1b")
			}) {
				t.Errorf("%v\n%+v", err, report.Dispositions)
			}
		})
	}
}

func TestASocketThatIsNotRootsIsNotDockerd(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, dir string){
		"another user's": func(t *testing.T, dir string) { ok(t, os.Lchown(filepath.Join(dir, "run/docker.sock"), 20001, 20001)) },
		"a link": func(t *testing.T, dir string) {
			ok(t, os.Rename(filepath.Join(dir, "run/docker.sock"), filepath.Join(dir, "tmp/sock")))
			ok(t, os.Symlink("../tmp/sock", filepath.Join(dir, "run/docker.sock")))
		},
		"a file": func(t *testing.T, dir string) {
			ok(t, os.Remove(filepath.Join(dir, "run/docker.sock")))
			put(t, dir, "run/docker.sock", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := used(t)
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
	put(t, dir, at+"stat", strconv.Itoa(pid)+" ("+name+") S "+strconv.Itoa(ppid)+" 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0\n")
	put(t, dir, at+"status", "Name:\t"+name+"\nUid:\t0\t0\t0\t0\n")
	put(t, dir, at+"cgroup", "0::"+cgroup+"\n")
	ok(t, os.Symlink(exe, filepath.Join(dir, at+"exe")))
}

func TestWhatRunsInAContainerIsToldFromWhatOnlySaysSo(t *testing.T) {
	h, dir := used(t)
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
	ok(t, err)
	all, err := h.Machine.Processes()
	ok(t, err)
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
	if !jail(t) {
		return
	}
	for _, d := range []string{"/tmp", "/var/tmp", "/etc", "/precious/overlay", "/var/lib/containers/storage/overlay", "/var/lib/docker/volumes"} {
		ok(t, os.MkdirAll(d, 0o755))
	}
	put(t, "/", "etc/passwd", "root:x:0:0::/root:/bin/sh\n")
	// As podman does when it starts, and as an operator does with a disk for volumes.
	ok(t, unix.Mount("/var/lib/containers/storage/overlay", "/var/lib/containers/storage/overlay", "", unix.MS_BIND, ""))
	ok(t, unix.Mount("tmpfs", "/var/lib/docker/volumes", "tmpfs", 0, ""))
	m, err := machine.Open("/")
	ok(t, err)
	mounts, err := m.Mounts()
	ok(t, err)
	base := untouched()
	base.Mounts = nil
	for _, mt := range mounts {
		base.Mounts = append(base.Mounts, host.MountName(mt))
	}
	put(t, "/", "var/lib/containers/storage/overlay/layer/diff/x", "")
	put(t, "/", "var/lib/docker/volumes/v/_data/x", "")
	// A tenant mounts over a directory above the root.
	put(t, "/", "precious/overlay/x", "")
	ok(t, unix.Mount("/precious", "/var/lib/containers/storage", "", unix.MS_BIND, ""))

	store := &memory{}
	h := &host.Host{Machine: m, Now: time.Now, Log: zap.NewNop(), Accounts: store, Marks: store, Systemd: &quietSystemd{}}
	_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: base})
	if err != nil || !there("/", "precious/overlay/x") || there("/", "var/lib/containers/storage/overlay/layer") || there("/", "var/lib/docker/volumes/v") {
		t.Errorf("%v\n%+v", err, report.Dispositions)
	}
	if now, err := m.Mounts(); err != nil || len(now) != len(mounts) {
		t.Errorf("mounts %+v, %v", now, err)
	}
}

func TestThingsOfAContainerSayThatACleanupMendsThem(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for file, is := range map[string]bool{
		"/run/systemd/transient/docker-" + id + ".scope":                       true,
		"/run/systemd/transient/docker-" + id + ".scope.d/50-DeviceAllow.conf": true,
		"/run/systemd/transient/libpod-conmon-" + id + ".scope":                true,
		"/etc/systemd/system/docker-" + id + ".scope":                          false,
		"/run/systemd/transient/docker-" + id + ".service":                     false,
		"/run/systemd/transient/implant.service":                               false,
		"/run/systemd/transient/implant.service.d/docker-" + id + ".scope":     false,
		"/run/systemd/system/docker-" + id + ".scope.d/50-whatever.conf":       false,
		"/run/systemd/transient/../../../etc/systemd/docker-" + id + ".scope":  false,
	} {
		if containerUnit(file) != is {
			t.Errorf("%s: %v", file, !is)
		}
	}
	v := &validation{Run: &host.Run{Host: &host.Host{ContainerRoots: map[string]string{"/data/engine": ""}}}}
	for point, is := range map[string]bool{
		"/var/lib/docker/overlay2/x/merged":                         true,
		"/run/containerd/io.containerd.runtime.v2.task/k8s.io/x/fs": true,
		"/data/engine/overlay2/x":                                   true,
		"/var/lib/docker":                                           false, // a disk, not a container's
		"/var/lib/dockerx/y":                                        false,
		"/mnt":                                                      false,
	} {
		if v.containers(point) != is {
			t.Errorf("%s: %v", point, !is)
		}
	}
}

func TestTheContentsOfAMovedEngineAreFound(t *testing.T) {
	h, dir := used(t)
	h.ContainerRoots = map[string]string{"/data/docker": "docker.service", "/data/containers": ""}
	for _, name := range []string{"data/docker/containers/c1/x", "data/docker/image/overlay2/imagedb/content/sha256/i1", "data/docker/volumes/v1/x", "data/containers/storage/overlay-containers/p1/x"} {
		put(t, dir, name, "")
	}
	items, err := lookContainers(context.Background(), &validation{Run: &host.Run{Host: h}, m: h.Machine})
	ok(t, err)
	for _, want := range []string{"/data/docker/containers/c1", "/data/docker/image/overlay2/imagedb/content/sha256/i1", "/data/docker/volumes/v1", "/data/containers/storage/overlay-containers/p1"} {
		if !slices.ContainsFunc(items, func(it item) bool { return it.finding.Subject == want }) {
			t.Errorf("%s is not found: %+v", want, items)
		}
	}
}
