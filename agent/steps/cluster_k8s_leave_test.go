package steps

import (
	"context"
	"os"
	"path/filepath"
	"slices"
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
		want := "cluster prod says absent (no such node); kubelet.service has ended, and no certificate of a cluster is there; cut off: 3 (team/db-0, team/bare, team/late)"
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
