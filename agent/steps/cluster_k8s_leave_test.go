package steps

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// leavingK8s is a step that leaves, on a node that has joined.
func leavingK8s(t *testing.T, answers ...string) (*Step, string, *kubeadm) {
	t.Helper()
	s, dir, k := joiningK8s(t, nil)
	if _, err := do(t, s); err != nil {
		t.Fatal(err)
	}
	k.ran, k.Asked = nil, nil
	s = aStep(t, s.Host, "cluster.leave", Args{"cluster": "k8s", "name": "prod"})
	s.Mint = func(context.Context) ([]byte, error) {
		answer := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return ofController(answer, "api.example:6443"), nil
	}
	return s, dir, k
}

func TestANodeLeavesKubernetes(t *testing.T) {
	needsRoot(t)
	const forced = `{"state":"draining","words":"Ready,SchedulingDisabled; pods: 2","cut":["team/db-0","team/bare"]}`
	s, dir, k := leavingK8s(t, forced, `{"state":"down","words":"x","cut":["team/late"]}`, isAbsent)
	// The first attempt ends while the node drains; the second one still knows what was cut off.
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := kinds["cluster.leave"].Do(ctx, s); err == nil || len(k.ran) > 0 || !k.On[kubeletUnit] {
			t.Errorf("%v, ran %q", err, k.ran)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		proof, err := do(t, s)
		want := "cluster prod says absent (no such node); kubelet.service has ended, and neither a certificate of a cluster nor anything of a pod is there; cut off: 3 (team/db-0, team/bare, team/late)"
		if err != nil || proof.Message != want {
			t.Errorf("%q %v", proof.Message, err)
		}
	})
	if !slices.Equal(k.ran, []string{"hostler-kubeadm.service: /usr/bin/kubeadm reset --force"}) || k.On[kubeletUnit] || k.Enabled[kubeletUnit] {
		t.Errorf("ran %q, asked %q", k.ran, k.Asked)
	}
	tokenless(t, "a leave", dir)
	// A node that has left leaves again, without kubeadm.
	hosttest.OK(t, os.Remove(filepath.Join(dir, "usr/bin/kubeadm")))
	if _, err := do(t, s); err != nil || len(k.ran) != 1 {
		t.Errorf("once more: %v", err)
	}
}

func TestALeaveOfKubernetesFails(t *testing.T) {
	needsRoot(t)
	for name, row := range map[string]struct {
		change func(dir string, k *kubeadm)
		code   taskcatalog.Code
	}{
		"a control plane": {func(dir string, _ *kubeadm) { hosttest.Put(t, dir, "etc/kubernetes/admin.conf", "x") }, CodeOtherMembership},
		"a reset that fails": {func(dir string, k *kubeadm) {
			hosttest.Put(t, dir, "var/lib/hostler-agent/kubeadm.log", "no")
			k.run = func(string) (int, error) { return 1, nil }
		}, CodeKubeadmFailed},
		"a reset that does nothing": {func(_ string, k *kubeadm) { k.run = func(string) (int, error) { return 0, nil } }, CodeKubeadmFailed},
		"a reset that leaves an old certificate": {func(dir string, k *kubeadm) {
			k.run = func(string) (int, error) {
				noKubelet(dir)
				hosttest.Put(t, dir, "var/lib/kubelet/pki/kubelet-client-2025.pem", "x")
				return 0, nil
			}
		}, CodeKubeadmFailed},
		"certificates that cannot be listed": {func(dir string, k *kubeadm) {
			k.run = func(string) (int, error) {
				noKubelet(dir)
				hosttest.OK(t, os.Symlink("kubelet", filepath.Join(dir, "var/lib/kubelet")))
				return 0, nil
			}
		}, ""},
		"a kubelet that goes on": {func(_ string, k *kubeadm) { k.Obeys = false; k.run = func(string) (int, error) { return 0, nil } }, CodeUnitState},
	} {
		s, dir, k := leavingK8s(t, isAbsent)
		row.change(dir, k)
		if _, err := do(t, s); err == nil || taskcatalog.CodeOf(err, "") != row.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A certificate alone is reset as well.
	s, dir, k := leavingK8s(t, isAbsent)
	hosttest.OK(t, os.RemoveAll(filepath.Join(dir, "etc/kubernetes")))
	if _, err := do(t, s); err != nil || len(k.ran) != 1 {
		t.Errorf("a certificate alone: %v, ran %q", err, k.ran)
	}
}

const (
	aTask  = "run/containerd/io.containerd.runtime.v2.task/k8s.io/0123abcd"
	aMount = "36 22 0:44 / /var/lib/kubelet/pods/5e0f/volumes/kubernetes.io~projected/kube-api-access rw,relatime shared:2 - tmpfs tmpfs rw\n"
)

// kubeadm ends well although the runtime hangs, and what it has not ended keeps the leave from being done.
func TestWhatIsLeftOfPodsIsNoLeave(t *testing.T) {
	needsRoot(t)
	root := "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
	for name, row := range map[string]struct {
		leave func(t *testing.T, dir string)
		says  string
	}{
		"a process, by systemd's groups": {func(t *testing.T, dir string) {
			hosttest.Process(t, dir, 77, 65535, "/pause", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5e0f.slice/cri-containerd-0123.scope", "net:[4026532008]")
		}, "process 77"},
		"a process, by kubelet's own groups": {func(t *testing.T, dir string) {
			hosttest.Process(t, dir, 78, 0, "/app", "/kubepods/besteffort/pod5e0f/0123", "net:[4026532008]")
		}, "process 78"},
		"a container": {func(t *testing.T, dir string) { hosttest.OK(t, os.MkdirAll(filepath.Join(dir, aTask), 0o700)) }, "container 0123abcd"},
		"a mount":     {func(t *testing.T, dir string) { hosttest.Put(t, dir, "proc/1/mountinfo", root+aMount) }, "mount /var/lib/kubelet/pods/5e0f/"},
		"a pod's rootfs": {func(t *testing.T, dir string) {
			hosttest.Put(t, dir, "proc/1/mountinfo", root+"37 22 0:45 / /"+aTask+"/rootfs rw - overlay overlay rw\n")
		}, "mount /run/containerd/"},
		"a network": {func(t *testing.T, dir string) { hosttest.Put(t, dir, "run/netns/cni-1f2e", "") }, "network /run/netns/cni-1f2e"},
	} {
		s, dir, k := leavingK8s(t, isAbsent)
		row.leave(t, dir)
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, err := do(t, s)
			if taskcatalog.CodeOf(err, "") != CodePodsLeft || !strings.Contains(err.Error(), row.says) || time.Since(began) < podsPatience {
				t.Errorf("%s: %v after %s", name, err, time.Since(began))
			}
		})
		if len(k.ran) != 1 {
			t.Errorf("%s: ran %q", name, k.ran)
		}
	}
	// What cannot be looked at is not taken for nothing.
	s, dir, _ := leavingK8s(t, isAbsent)
	hosttest.OK(t, os.MkdirAll(filepath.Join(dir, "proc/79/cgroup"), 0o755))
	if _, err := do(t, s); err == nil || !strings.Contains(err.Error(), "process 79") {
		t.Errorf("a process that cannot be looked at: %v", err)
	}
	s, dir, _ = leavingK8s(t, isAbsent)
	hosttest.Put(t, dir, "proc/1/mountinfo", "?\n")
	if _, err := do(t, s); err == nil {
		t.Error("mounts that cannot be listed")
	}
}

// A runtime ends its containers by and by. What others have on the node is not looked at, and links that
// kubeadm leaves are told.
func TestALeaveWaitsForTheEndOfPods(t *testing.T) {
	needsRoot(t)
	s, dir, _ := leavingK8s(t, isAbsent)
	hosttest.OK(t, os.MkdirAll(filepath.Join(dir, aTask), 0o700))
	hosttest.OK(t, os.MkdirAll(filepath.Join(dir, "run/containerd/io.containerd.runtime.v2.task/moby/77"), 0o700))
	hosttest.Put(t, dir, "run/netns/site", "")
	hosttest.Process(t, dir, 80, 0, "/usr/bin/containerd", "/system.slice/containerd.service", "net:[1]")
	for _, link := range []string{"lo", "eth0", "cni0", "flannel.1"} {
		hosttest.OK(t, os.MkdirAll(filepath.Join(dir, "sys/class/net", link), 0o755))
	}
	s.Progress = func(_ int, message string) {
		if strings.Contains(message, "container 0123abcd") {
			_ = os.Remove(filepath.Join(dir, aTask))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		proof, err := do(t, s)
		if err != nil || !strings.Contains(proof.Message, "links of a network plugin stay: ") || !strings.Contains(proof.Message, "cni0") ||
			!strings.Contains(proof.Message, "flannel.1") || strings.Contains(proof.Message, "eth0") {
			t.Errorf("%q %v", proof.Message, err)
		}
	})
}
