package steps

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

const aBootstrapToken = "abcdef.012345678planted"

// aNodeCert is a certificate as kubelet keeps it, with a common name.
func aNodeCert(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	hosttest.OK(t, err)
	subject := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}}, NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, subject, subject, key.Public(), key)
	hosttest.OK(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

// kubeadm is a node's systemd on which kubeadm does what a test says.
type kubeadm struct {
	*hosttest.Systemd
	run func(verb string) (int, error)
	ran []string
}

func (k *kubeadm) Finish(_ context.Context, of host.Service) (int, error) {
	k.ran = append(k.ran, of.Unit+": "+strings.Join(of.Argv, " "))
	return k.run(of.Argv[1])
}

// aKubelet is what kubelet leaves on a node that has its certificate: the form is that of its own code.
func aKubelet(t *testing.T, dir, server, ca, name string) {
	t.Helper()
	hosttest.Put(t, dir, "etc/kubernetes/kubelet.conf", "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte(ca))+
		"\n    server: "+server+"\n  name: default-cluster\ncontexts:\n- context:\n    cluster: default-cluster\n    namespace: default\n    user: default-auth\n  name: default-context\n"+
		"current-context: default-context\nkind: Config\npreferences: {}\nusers:\n- name: default-auth\n  user:\n    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n"+
		"    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem\n")
	hosttest.Put(t, dir, "etc/kubernetes/pki/ca.crt", ca)
	hosttest.Put(t, dir, "var/lib/kubelet/pki/kubelet-client-2026.pem", aNodeCert(t, "system:node:"+name))
	current := filepath.Join(dir, "var/lib/kubelet/pki/kubelet-client-current.pem")
	_ = os.Remove(current)
	hosttest.OK(t, os.Symlink("/var/lib/kubelet/pki/kubelet-client-2026.pem", current))
}

func noKubelet(dir string) {
	for _, name := range []string{"etc/kubernetes", "var/lib/kubelet"} {
		_ = os.RemoveAll(filepath.Join(dir, name))
	}
}

// joiningK8s is a step that joins a Kubernetes cluster, on a node with kubeadm that obeys.
func joiningK8s(t *testing.T, change func(c *taskcatalog.ClusterJoin), labels ...string) (*Step, string, *kubeadm) {
	t.Helper()
	h, dir := hosttest.Box(t)
	hosttest.OK(t, os.MkdirAll(filepath.Join(dir, "var/lib/hostler-agent"), 0o700))
	hosttest.Put(t, dir, "usr/bin/kubeadm", "\x7fELF")
	hosttest.OK(t, os.Chmod(filepath.Join(dir, "usr/bin/kubeadm"), 0o755))
	runner, err := command.New(dir, h.Now)
	hosttest.OK(t, err)
	t.Cleanup(func() { runner.Close() })
	k := &kubeadm{Systemd: h.Systemd.(*hosttest.Systemd)}
	k.Obeys, k.On = true, map[string]bool{}
	h.Systemd, h.Commands = k, runner
	c := taskcatalog.ClusterJoin{
		Node: "gpu-7", Controller: "api.example:6443", Auth: "bootstrap-token", Key: []byte(aBootstrapToken), CA: aNodeCert(t, "kubernetes"),
	}
	if change != nil {
		change(&c)
	}
	k.run = func(verb string) (int, error) {
		switch verb {
		case "join":
			hosttest.Put(t, dir, "etc/kubernetes/bootstrap-kubelet.conf", aBootstrapToken)
			aKubelet(t, dir, "https://"+c.Controller, c.CA, c.Node)
			k.On[kubeletUnit] = true
		case "reset":
			noKubelet(dir)
			k.On[kubeletUnit] = false
		}
		return 0, nil
	}
	raw, err := json.Marshal(c)
	hosttest.OK(t, err)
	args := Args{"cluster": "k8s", "credential": NewSecret(raw, nil)}
	if len(labels) > 0 {
		args["labels"] = labels
	}
	return aStep(t, h, "cluster.join", args), dir, k
}

var tokenFiles = []string{"run/hostler-agent/kubeadm/join.yaml", "run/hostler-agent/kubeadm/discovery.conf", "etc/kubernetes/bootstrap-kubelet.conf"}

// tokenless fails if a file that has the token is there.
func tokenless(t *testing.T, name, dir string) {
	t.Helper()
	for _, file := range tokenFiles {
		if _, err := os.Lstat(filepath.Join(dir, file)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %s: %v", name, file, err)
		}
	}
}

func TestANodeJoinsKubernetesByKubeadm(t *testing.T) {
	needsRoot(t)
	s, dir, k := joiningK8s(t, func(c *taskcatalog.ClusterJoin) { c.ID = "n-7" }, "example.com/gpu=h100", "pool=a")
	if look(t, s) {
		t.Error("a node is joined before it joins")
	}
	does := k.run
	k.run = func(verb string) (int, error) {
		for _, file := range tokenFiles[:2] {
			if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: %v %v", file, info, err)
			}
		}
		want := `{"apiVersion":"kubeadm.k8s.io/v1beta4","discovery":{"file":{"kubeConfigPath":"/run/hostler-agent/kubeadm/discovery.conf"},"tlsBootstrapToken":"` + aBootstrapToken +
			`"},"kind":"JoinConfiguration","nodeRegistration":{"kubeletExtraArgs":[{"name":"node-labels","value":"example.com/gpu=h100,pool=a,hostler.dev/node=n-7"}],"name":"gpu-7"}}`
		if got := hosttest.Read(t, dir, tokenFiles[0]); got != want {
			t.Errorf("the configuration is %s", got)
		}
		if got := hosttest.Read(t, dir, tokenFiles[1]); !strings.Contains(got, `"server":"https://api.example:6443"`) || !strings.Contains(got, "certificate-authority-data") ||
			strings.Contains(got, "insecure") || strings.Contains(got, aBootstrapToken) {
			t.Errorf("the kubeconfig is %s", got)
		}
		return does(verb)
	}
	proof, err := do(t, s)
	if err != nil || proof.Message != "kubelet.service is active" {
		t.Fatal(proof, err)
	}
	if want := []string{"hostler-kubeadm.service: /usr/bin/kubeadm join --config /run/hostler-agent/kubeadm/join.yaml"}; !slices.Equal(k.ran, want) || !k.Enabled[kubeletUnit] {
		t.Errorf("ran %q", k.ran)
	}
	tokenless(t, "a join", dir)
	if state := s.Checkpoint.(*notes).state; strings.Contains(string(state), "planted") {
		t.Errorf("the checkpoint is %s", state)
	}
	delete(s.Args, "credential")
	if !look(t, s) {
		t.Error("what was joined is not found")
	}
}

// A look believes kubelet's own files alone, of this cluster and node, while kubelet runs.
func TestAMembershipIsProvenByWhatKubeletHas(t *testing.T) {
	needsRoot(t)
	for name, change := range map[string]func(dir, ca string, k *kubeadm){
		"kubelet ended":  func(_, _ string, k *kubeadm) { k.On[kubeletUnit] = false },
		"another server": func(dir, ca string, _ *kubeadm) { aKubelet(t, dir, "https://evil.example:6443", ca, "gpu-7") },
		"another CA": func(dir, _ string, _ *kubeadm) {
			aKubelet(t, dir, "https://api.example:6443", aNodeCert(t, "evil"), "gpu-7")
		},
		"another node": func(dir, ca string, _ *kubeadm) { aKubelet(t, dir, "https://api.example:6443", ca, "gpu-8") },
		"two servers": func(dir, ca string, _ *kubeadm) {
			aKubelet(t, dir, "https://api.example:6443\n    server: https://evil", ca, "gpu-7")
		},
		"no certificate": func(dir, _ string, _ *kubeadm) { hosttest.OK(t, os.RemoveAll(filepath.Join(dir, "var/lib/kubelet"))) },
		"no file of kubelet": func(dir, _ string, _ *kubeadm) {
			hosttest.OK(t, os.Remove(filepath.Join(dir, "etc/kubernetes/kubelet.conf")))
		},
		"an empty kubeconfig": func(dir, _ string, _ *kubeadm) { hosttest.Put(t, dir, "etc/kubernetes/kubelet.conf", "") },
	} {
		ca := ""
		s, dir, k := joiningK8s(t, func(c *taskcatalog.ClusterJoin) { ca = c.CA })
		if _, err := do(t, s); err != nil {
			t.Fatal(err)
		}
		if change(dir, ca, k); look(t, s) {
			t.Errorf("%s: the node counts as joined", name)
		}
		// The same operation joins it again, after a reset of what is there.
		if _, err := do(t, s); err != nil || !look(t, s) || !strings.HasSuffix(k.ran[1], "kubeadm reset --force") {
			t.Errorf("%s: it cannot be joined again: %v, ran %q", name, err, k.ran)
		}
	}
}

// Taints and this node's part of kubelet's configuration are in the configuration of kubeadm, as its v1beta4 has
// them. kubeadm merges a file of a directory by its name.
func TestANodeRegistersWithTaints(t *testing.T) {
	needsRoot(t)
	s, dir, k := joiningK8s(t, nil)
	s.Args["taints"], s.Args["kubelet"] = []string{"nvidia.com/gpu=present:NoSchedule", "pool:NoExecute"}, "/etc/hostler-kubeadm/kubeletconfiguration+merge.yaml"
	does := k.run
	k.run = func(verb string) (int, error) {
		got := hosttest.Read(t, dir, tokenFiles[0])
		for _, want := range []string{
			`"taints":[{"key":"nvidia.com/gpu","value":"present","effect":"NoSchedule"},{"key":"pool","effect":"NoExecute"}]`,
			`"patches":{"directory":"/etc/hostler-kubeadm"}`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the configuration is %s, without %s", got, want)
			}
		}
		return does(verb)
	}
	if _, err := do(t, s); err != nil || len(k.ran) != 1 {
		t.Fatal(err, k.ran)
	}
	for name, args := range map[string]Args{
		"no effect":             {"taints": []string{"pool=a"}},
		"a later effect":        {"taints": []string{"pool=a:Hover"}},
		"an effect of two":      {"taints": []string{"pool=a:NoSchedule:NoExecute"}},
		"no key":                {"taints": []string{"=a:NoSchedule"}},
		"an empty value":        {"taints": []string{"pool=:NoSchedule"}},
		"a value of two":        {"taints": []string{"pool=a=b:NoSchedule"}},
		"a key of two":          {"taints": []string{"a/b/c:NoSchedule"}},
		"a taint of Kubernetes": {"taints": []string{"node.kubernetes.io/unschedulable:NoSchedule"}},
		"a taint of a role":     {"taints": []string{"node-role.kubernetes.io/control-plane:NoSchedule"}},
		"one taint twice":       {"taints": []string{"pool=a:NoSchedule", "pool=b:NoSchedule"}},
		"a file of any name":    {"kubelet": "/etc/hostler-kubeadm/kubelet.yaml"},
		"a file of etcd's":      {"kubelet": "/etc/hostler-kubeadm/etcd+merge.yaml"},
		"a path of more":        {"kubelet": "/etc/../x/kubeletconfiguration+merge.yaml"},
		"a path from here":      {"kubelet": "kubeletconfiguration+merge.yaml"},
	} {
		s, dir, k := joiningK8s(t, nil)
		for name, value := range args {
			s.Args[name] = value
		}
		if _, err := do(t, s); taskcatalog.CodeOf(err, "") != taskcatalog.CodePlanInvalid || len(k.ran) > 0 {
			t.Errorf("%s: %v, ran %q", name, err, k.ran)
		}
		tokenless(t, name, dir)
	}
}

// Whoever was root on the node before may have left a patch that kubeadm would merge.
func TestAPatchThatSomebodyLeftIsNotMerged(t *testing.T) {
	needsRoot(t)
	s, dir, k := joiningK8s(t, nil)
	hosttest.Put(t, dir, "etc/hostler-kubeadm/kubeletconfiguration+merge.yaml", "cgroupDriver: systemd\n")
	hosttest.Put(t, dir, "etc/hostler-kubeadm/kubeletconfiguration0+strategic.yaml", "authentication: {anonymous: {enabled: true}}\n")
	s.Args["kubelet"] = "/etc/hostler-kubeadm/kubeletconfiguration+merge.yaml"
	_, err := do(t, s)
	if taskcatalog.CodeOf(err, "") != taskcatalog.CodePathRefused || !strings.Contains(err.Error(), "kubeletconfiguration0+strategic.yaml") || len(k.ran) > 0 {
		t.Errorf("%v, ran %q", err, k.ran)
	}
	tokenless(t, "a patch that somebody left", dir)
}

func TestAJoinOfKubernetesIsRefused(t *testing.T) {
	needsRoot(t)
	for name, row := range map[string]struct {
		change func(c *taskcatalog.ClusterJoin)
		label  string
	}{
		"no CA":                  {func(c *taskcatalog.ClusterJoin) { c.CA = "" }, ""},
		"a CA that is none":      {func(c *taskcatalog.ClusterJoin) { c.CA = "planted" }, ""},
		"no token":               {func(c *taskcatalog.ClusterJoin) { c.Key = nil }, ""},
		"a token of more":        {func(c *taskcatalog.ClusterJoin) { c.Key = append(c.Key, '\n') }, ""},
		"Slurm's way":            {func(c *taskcatalog.ClusterJoin) { c.Auth = "munge" }, ""},
		"a node of more":         {func(c *taskcatalog.ClusterJoin) { c.Node = "gpu-7,x" }, ""},
		"a controller of more":   {func(c *taskcatalog.ClusterJoin) { c.Controller = "api:6443/x" }, ""},
		"a label of Kubernetes":  {nil, "kubernetes.io/hostname=x"},
		"a label of Hostler":     {nil, "hostler.dev/node=n-8"},
		"an id of more":          {func(c *taskcatalog.ClusterJoin) { c.ID = "n-7,a=b" }, ""},
		"a role":                 {nil, "node-role.kubernetes.io/control-plane=x"},
		"a label of two":         {nil, "a=b,c=d"},
		"a label without a text": {nil, "gpu"},
	} {
		var labels []string
		if row.label != "" {
			labels = append(labels, row.label)
		}
		s, dir, k := joiningK8s(t, row.change, labels...)
		if _, err := do(t, s); taskcatalog.CodeOf(err, "") != taskcatalog.CodePlanInvalid || strings.Contains(err.Error(), "planted") || len(k.ran) > 0 {
			t.Errorf("%s: %v, ran %q", name, err, k.ran)
		}
		tokenless(t, name, dir)
	}
}

// What a killed agent or a failed kubeadm has left is reset by the same operation, and by no other.
func TestAJoinThatWasCutOffBeginsAgain(t *testing.T) {
	needsRoot(t)
	for name, cut := range map[string]func(dir string) (int, error){
		"before kubelet has a certificate": func(dir string) (int, error) {
			hosttest.Put(t, dir, "etc/kubernetes/pki/ca.crt", "x")
			hosttest.Put(t, dir, "etc/kubernetes/bootstrap-kubelet.conf", aBootstrapToken)
			return 0, errors.New("cut")
		},
		"with an error": func(dir string) (int, error) {
			hosttest.Put(t, dir, "etc/kubernetes/kubelet.conf", "x")
			hosttest.Put(t, dir, "var/lib/hostler-agent/kubeadm.log", "[preflight] Some fatal errors occurred:\n\t[ERROR Port-10250]: Port 10250 is in use\x1b\n")
			return 1, nil
		},
	} {
		s, dir, k := joiningK8s(t, nil)
		does := k.run
		k.run = func(string) (int, error) { return cut(dir) }
		_, err := do(t, s)
		if err == nil || name == "with an error" && (taskcatalog.CodeOf(err, "") != CodeKubeadmFailed || !strings.Contains(err.Error(), `Port 10250 is in use\x1b`)) {
			t.Errorf("%s: %v", name, err)
		}
		tokenless(t, name, dir)
		k.run = does
		if _, err := do(t, s); err != nil || !look(t, s) || len(k.ran) != 3 {
			t.Errorf("%s: once more: %v, ran %q", name, err, k.ran)
		}
	}
	s, dir, k := joiningK8s(t, nil)
	aKubelet(t, dir, "https://api.example:6443", "x", "gpu-7")
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != CodeOtherMembership || len(k.ran) > 0 {
		t.Errorf("another membership: %v, ran %q", err, k.ran)
	}
	// kubeadm that an earlier agent has begun is not run twice.
	s, dir, k = joiningK8s(t, nil)
	if _, err := do(t, s); err != nil {
		t.Fatal(err)
	}
	k.ran = nil
	k.On[kubeadmUnit] = true
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := kinds["cluster.join"].Do(ctx, s); !errors.Is(err, context.DeadlineExceeded) || len(k.ran) > 0 {
			t.Errorf("%v, ran %q", err, k.ran)
		}
	})
	k.On[kubeadmUnit] = false
	if proof, err := do(t, s); err != nil || proof.Message == "" || len(k.ran) > 0 {
		t.Errorf("%v %v, ran %q", proof, err, k.ran)
	}
	tokenless(t, "a join that was done", dir)
}

// The token goes also when the agent was killed while kubeadm ran, and the next process finds the join done.
func TestNoTokenStaysOfAJoinThatWasKilled(t *testing.T) {
	needsRoot(t)
	s, dir, k := joiningK8s(t, nil)
	if _, err := do(t, s); err != nil {
		t.Fatal(err)
	}
	for _, file := range tokenFiles {
		hosttest.Put(t, dir, file, aBootstrapToken)
	}
	k.Asked, k.Enabled[kubeletUnit] = nil, false
	delete(s.Args, "credential")
	k.On[kubeadmUnit] = true
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, done, err := kinds["cluster.join"].Look(ctx, s); done || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while kubeadm runs: %v %v", done, err)
		}
	})
	k.On[kubeadmUnit] = false
	if !look(t, s) || len(k.Asked) > 0 || hosttest.Read(t, dir, tokenFiles[0]) == "" {
		t.Errorf("a look changes something, or finds nothing: %q", k.Asked)
	}
	verify := aStep(t, s.Host, "cluster.verify", Args{"cluster": "k8s", "name": "prod"})
	verify.Mint = func(context.Context) ([]byte, error) {
		tokenless(t, "before the cluster is asked", dir)
		return []byte(`{"state":"member","words":"Ready"}`), nil
	}
	if _, err := do(t, verify); err != nil || !k.Enabled[kubeletUnit] {
		t.Errorf("%v, asked %q", err, k.Asked)
	}
	// A join by hand that has not ended keeps its token.
	hosttest.OK(t, os.Remove(filepath.Join(dir, "etc/kubernetes/kubelet.conf")))
	hosttest.Put(t, dir, tokenFiles[2], aBootstrapToken)
	verify.Mint = func(context.Context) ([]byte, error) { return []byte(`{"state":"absent","words":"x"}`), nil }
	if _, err := do(t, verify); taskcatalog.CodeOf(err, "") != CodeNotMember || hosttest.Read(t, dir, tokenFiles[2]) == "" {
		t.Error(err)
	}
}
