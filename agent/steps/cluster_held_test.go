package steps

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// A cluster says absent of a node that it never had. The node then ends nothing of the cluster that it is in.
func TestANodeLeavesNoOtherCluster(t *testing.T) {
	needsRoot(t)
	for name, answer := range map[string]string{
		"another controller":      `{"state":"absent","words":"x","controller":"other.example:6443","node":"gpu-7"}`,
		"a longer controller":     `{"state":"absent","words":"x","controller":"THIS0","node":"gpu-7"}`,
		"a shorter controller":    `{"state":"absent","words":"x","controller":"SHORT","node":"gpu-7"}`,
		"another name":            `{"state":"absent","words":"x","controller":"THIS","node":"gpu-70"}`,
		"an answer that has none": `{"state":"absent","words":"x","controller":"","node":"gpu-7"}`,
	} {
		of := func(controller string) string {
			return strings.NewReplacer("THIS", controller, "SHORT", controller[:len(controller)-1]).Replace(answer)
		}
		refused := func(backend string, s *Step) {
			if _, err := do(t, s); taskcatalog.CodeOf(err, "") != CodeOtherMembership || !strings.Contains(err.Error(), "nothing was ended") {
				t.Errorf("%s, %s: %v", backend, name, err)
			}
		}
		s, dir, units := leaving(t, of(aJoin.Controller))
		refused("slurm", s)
		untouched(t, name, dir, units)

		// Ray's node gives no order either while the other cluster has a node of its name.
		for _, state := range []string{"absent", "member"} {
			answer := strings.Replace(of(rayJoin.Controller), `"absent"`, `"`+state+`","id":"`+strings.Repeat("a", 56)+`"`, 1)
			s, dir, units = leavingRay(t, answer)
			refused("ray", s)
			if want := []string{"broker"}; !slices.Equal(units.Asked, want) || hosttest.Read(t, dir, rayTokenFile) == "" {
				t.Errorf("ray, %s: asked %q", name, units.Asked)
			}
		}

		s, dir, k := leavingK8s(t, of("api.example:6443"))
		refused("k8s", s)
		if len(k.ran) > 0 || !k.On[kubeletUnit] || hosttest.Read(t, dir, "etc/kubernetes/kubelet.conf") == "" {
			t.Errorf("k8s, %s: ran %q", name, k.ran)
		}
		// What kubeadm has only begun is nobody's work, and neither is what is not there.
		hosttest.OK(t, os.Remove(filepath.Join(dir, "etc/kubernetes/kubelet.conf")))
		if _, err := do(t, s); err != nil || len(k.ran) != 1 {
			t.Errorf("k8s, %s, half done: %v, ran %q", name, err, k.ran)
		}
		if _, err := do(t, s); err != nil {
			t.Errorf("k8s, %s, nothing: %v", name, err)
		}
	}
}

// Files that do not say which cluster they are of are nobody's to end.
func TestANodeLeavesNoClusterThatItsFilesDoNotName(t *testing.T) {
	needsRoot(t)
	s, dir, units := leaving(t, isAbsent)
	hosttest.Put(t, dir, "etc/systemd/system/slurmd.service.d/50-hostler.conf", "[Service]\n")
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != CodeOtherMembership {
		t.Error(err)
	}
	untouched(t, "no controller", dir, units)
	s, dir, k := leavingK8s(t, isAbsent)
	hosttest.Put(t, dir, "etc/kubernetes/kubelet.conf", "x")
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != CodeOtherMembership || len(k.ran) > 0 {
		t.Error(err)
	}
	hosttest.Put(t, dir, "etc/kubernetes/kubelet.conf", "server: http://api.example:6443\n")
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != CodeOtherMembership || len(k.ran) > 0 {
		t.Error(err)
	}
}

// A member of one cluster does not become one of another: its files stay.
func TestAMemberJoinsNoSecondCluster(t *testing.T) {
	needsRoot(t)
	s, dir := joining(t, aJoin)
	_, err := do(t, s)
	hosttest.OK(t, err)
	other := aJoin
	other.Controller, other.Key = "other.example:6817", []byte("another-key-of-the-cluster-32-byte")
	again, _ := joining(t, other)
	again.Host = s.Host
	units := s.Host.Systemd.(*hosttest.Systemd)
	units.Asked = nil
	if _, err := do(t, again); taskcatalog.CodeOf(err, "") != CodeOtherMembership || strings.Contains(err.Error(), "another-key") {
		t.Error(err)
	}
	if hosttest.Read(t, dir, joinedFiles[0]) != string(aJoin.Key) || len(units.Asked) > 0 {
		t.Errorf("the key is another, or asked %q", units.Asked)
	}

	s, dir = joiningRay(t, rayJoin, "/opt/ray/env")
	_, err = do(t, s)
	hosttest.OK(t, err)
	other = rayJoin
	other.Controller, other.Key = "other.example:6379", []byte("another-key-of-the-cluster-32-byte")
	again, _ = joiningRay(t, other, "/opt/ray/env")
	again.Host = s.Host
	units = s.Host.Systemd.(*hosttest.Systemd)
	units.Asked = nil
	if _, err := do(t, again); taskcatalog.CodeOf(err, "") != CodeOtherMembership || strings.Contains(err.Error(), "another-key") {
		t.Error(err)
	}
	if hosttest.Read(t, dir, rayTokenFile) != string(rayJoin.Key) || len(units.Asked) > 0 {
		t.Errorf("the token is another, or asked %q", units.Asked)
	}
}
