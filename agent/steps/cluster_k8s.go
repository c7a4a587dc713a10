package steps

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Why a node does not join or leave a Kubernetes cluster.
const (
	CodeKubeadmFailed taskcatalog.Code = "kubeadm_failed"
	// CodeOtherMembership: the node has the files of a membership that this operation has not begun.
	CodeOtherMembership taskcatalog.Code = "other_membership"
)

const (
	kubeletUnit = "kubelet.service"
	kubeadmUnit = "hostler-kubeadm.service"
	kubeadmLog  = "kubeadm.log" // below the agent's state directory
	// kubeadmRoot is a directory in memory, where the token and the cluster's CA stand while kubeadm runs.
	kubeadmRoot, kubeadmJoin, kubeadmDiscovery = "/run/hostler-agent", "kubeadm/join.yaml", "kubeadm/discovery.conf"

	kubernetesRoot, kubeletConf, bootstrapConf, kubernetesCA = "/etc/kubernetes", "kubelet.conf", "bootstrap-kubelet.conf", "pki/ca.crt"
	kubeletCert                                              = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	maxKubernetesFile                                        = 256 << 10
	kubeadmPause                                             = 3 * time.Second
)

var (
	kubeadmEnv     = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/root"}
	bootstrapToken = lazyregexp.New(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
	kubernetesNode = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	k8sLabel       = lazyregexp.New(`^([a-z0-9][a-z0-9.-]{0,100}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?=[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
)

// joinedK8s is the checkpoint of a join, kept from before kubeadm begins: which membership it makes.
type joinedK8s struct {
	Node   string `json:"node"`
	Server string `json:"server"`
	CA     string `json:"ca"` // its digest
}

// lookK8s reports whether kubelet runs with the files of the membership that the step has begun: kubelet
// writes them when the cluster has given it a certificate of the node's name. It waits for a kubeadm that
// still runs.
func lookK8s(ctx context.Context, s *Step) (Proof, bool, error) {
	raw, err := s.Checkpoint.Load()
	var was joinedK8s
	if err != nil || raw == nil || json.Unmarshal(raw, &was) != nil {
		return Proof{}, false, err
	}
	if err := kubeadmAtRest(ctx, s); err != nil {
		return Proof{}, false, err
	}
	conf, err := s.Host.Machine.ReadStrict(path.Join(kubernetesRoot, kubeletConf), maxKubernetesFile)
	if err != nil {
		return Proof{}, false, absent(err)
	}
	ca, err := base64.StdEncoding.DecodeString(only(conf, "certificate-authority-data"))
	if err != nil || only(conf, "server") != was.Server || digestText(ca) != was.CA || only(conf, "client-certificate") != kubeletCert {
		return Proof{}, false, nil
	}
	// kubelet keeps its certificates under names of their own, and links to the present one.
	cert, err := s.Host.Machine.ReadFile(kubeletCert, maxKubernetesFile)
	if err != nil || certified(cert) != was.Node {
		return Proof{}, false, absent(err)
	}
	state, err := s.Host.Systemd.State(ctx, kubeletUnit)
	return Proof{Message: kubeletUnit + " is " + state.Active}, err == nil && state.Active == "active", err
}

// heldK8s returns the membership that kubelet has. One that kubeadm has only begun has no file of kubelet's,
// and counts for nothing.
func heldK8s(ctx context.Context, s *Step) (held, error) {
	if err := kubeadmAtRest(ctx, s); err != nil {
		return held{}, err
	}
	at := path.Join(kubernetesRoot, kubeletConf)
	conf, err := s.Host.Machine.ReadStrict(at, maxKubernetesFile)
	if err != nil {
		return held{}, absent(err)
	}
	has := held{file: at}
	if server, https := strings.CutPrefix(only(conf, "server"), "https://"); https {
		has.controller = server
	}
	cert, err := s.Host.Machine.ReadFile(kubeletCert, maxKubernetesFile)
	has.node = certified(cert)
	return has, absent(err)
}

// settleK8s does what a join that was cut off while kubeadm ran has not done, once kubelet has a membership:
// a look that finds the join done changes nothing.
func settleK8s(ctx context.Context, s *Step) error {
	has, err := heldK8s(ctx, s)
	if err != nil || has.file == "" {
		return err
	}
	if err := dropTokens(s); err != nil {
		return err
	}
	return s.Host.Systemd.Enable(ctx, kubeletUnit)
}

// only returns the value of a key of a kubeconfig that kubelet wrote; empty: it is there not once.
func only(conf []byte, key string) (value string) {
	for line := range strings.Lines(string(conf)) {
		if v, is := strings.CutPrefix(strings.TrimSpace(line), key+": "); is {
			if value != "" {
				return ""
			}
			value = v
		}
	}
	return value
}

// certified returns the node that a file has a certificate of; empty: it has none of a node.
func certified(file []byte) string {
	for {
		var block *pem.Block
		if block, file = pem.Decode(file); block == nil {
			return ""
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return ""
		}
		node, _ := strings.CutPrefix(cert.Subject.CommonName, "system:node:")
		return node
	}
}

// joinK8s makes the node a member by kubeadm. What an earlier run of this operation has left half done is
// reset before, and the files of another membership are left alone.
func joinK8s(ctx context.Context, s *Step, c *taskcatalog.ClusterJoin) (Proof, error) {
	labels := s.Args.Texts("labels")
	registers, err := registration(s)
	if err == nil {
		err = checkK8s(c, labels)
	}
	if err != nil {
		return Proof{}, err
	}
	if registers.labels, err = marked(c, labels); err != nil {
		return Proof{}, err
	}
	if err := kubeadmAtRest(ctx, s); err != nil {
		return Proof{}, err
	}
	want := joinedK8s{Node: c.Node, Server: "https://" + c.Controller, CA: digestText([]byte(c.CA))}
	if proof, err := madeRoom(ctx, s, want); err != nil || proof.Message != "" {
		return proof, err
	}
	raw, err := json.Marshal(want)
	if err == nil {
		err = s.Checkpoint.Save(raw)
	}
	if err == nil {
		err = runJoin(ctx, s, c, registers)
	}
	if err != nil {
		return Proof{}, err
	}
	if err := s.Host.Systemd.Enable(ctx, kubeletUnit); err != nil {
		return Proof{}, err
	}
	proof, done, err := lookK8s(ctx, s)
	if err == nil && !done {
		err = taskcatalog.Errorf(CodeUnitState,
			"kubeadm ended well, and kubelet does not run with a certificate of the node (systemctl status %s says why)", kubeletUnit)
	}
	return proof, err
}

// checkK8s refuses a credential that is none for kubeadm, and labels that kubelet does not start with.
func checkK8s(c *taskcatalog.ClusterJoin, labels []string) error {
	refuse := func(why string) error { return taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot join: %s", why) }
	switch {
	case c.Auth != "bootstrap-token" || !bootstrapToken.Match(c.Key):
		return refuse("this agent does not know the way to authenticate, or has no bootstrap token")
	case !kubernetesNode.MatchString(c.Node) || !joinController.MatchString(c.Controller):
		return refuse("the node's name or the address of the API server has a form that kubeadm is not started with")
	case !x509.NewCertPool().AppendCertsFromPEM([]byte(c.CA)):
		return refuse("the CA certificate of the cluster is missing, so the API server could be anybody")
	case slices.ContainsFunc(labels, func(l string) bool { return !k8sLabel.MatchString(l) || ownLabel(l) }):
		return refuse("a label is not [DOMAIN/]KEY=VALUE, or is of Kubernetes itself (kubernetes.io, k8s.io), which takes none from a node")
	}
	return nil
}

func ownLabel(label string) bool {
	domain, _, has := strings.Cut(label, "/")
	return has && slices.ContainsFunc([]string{"kubernetes.io", "k8s.io"}, func(own string) bool {
		return domain == own || strings.HasSuffix(domain, "."+own)
	})
}

// madeRoom returns the proof of a membership that is there already, or makes room for the wanted one.
func madeRoom(ctx context.Context, s *Step, want joinedK8s) (Proof, error) {
	left, err := leftK8s(s)
	if err != nil || len(left) == 0 {
		return Proof{}, err
	}
	raw, err := s.Checkpoint.Load()
	var was joinedK8s
	if err != nil {
		return Proof{}, err
	}
	if raw == nil || json.Unmarshal(raw, &was) != nil || was != want {
		return Proof{}, taskcatalog.Errorf(CodeOtherMembership,
			"the node has %s of a membership that this operation has not begun (run k8s.node.leave on the node, or kubeadm reset)", left[0])
	}
	if proof, done, err := lookK8s(ctx, s); err != nil || done {
		return proof, err
	}
	s.Progress(10, "a join that was cut off is reset")
	return Proof{}, runKubeadm(ctx, s, "kubeadm_reset")
}

// leftK8s are the files of a membership that are on the node.
func leftK8s(s *Step) (left []string, err error) {
	for _, name := range []string{kubeletConf, bootstrapConf, kubernetesCA} {
		at := path.Join(kubernetesRoot, name)
		switch _, err := s.Host.Machine.Lstat(at); {
		case err == nil:
			left = append(left, at)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return left, nil
}

// leftToEnd are those files, and every certificate that kubelet has had of a cluster.
func leftToEnd(s *Step) ([]string, error) {
	left, err := leftK8s(s)
	if err != nil {
		return nil, err
	}
	names, err := s.Host.Machine.Names(path.Dir(kubeletCert))
	for _, name := range names {
		if strings.HasPrefix(name, "kubelet-client") {
			left = append(left, path.Join(path.Dir(kubeletCert), name))
		}
	}
	return left, err
}

// runJoin runs kubeadm join. The token stands in a file of root's in memory while it runs, and kubeadm's
// own copy goes with it.
func runJoin(ctx context.Context, s *Step, c *taskcatalog.ClusterJoin, r registers) (err error) {
	join, discovery, err := kubeadmFiles(c, r)
	if err != nil {
		return err
	}
	defer clear(join)
	defer func() { err = errors.Join(err, dropTokens(s)) }()
	if err := writeFile(s, kubeadmRoot, kubeadmDiscovery, discovery, 0o600, 0, 0); err != nil {
		return err
	}
	if err := writeFile(s, kubeadmRoot, kubeadmJoin, join, 0o600, 0, 0); err != nil {
		return err
	}
	s.Progress(20, "kubeadm joins the cluster")
	return runKubeadm(ctx, s, "kubeadm_join")
}

// dropTokens removes every file that has the token.
func dropTokens(s *Step) error {
	return errors.Join(removeBelow(s, kubeadmRoot, kubeadmJoin), removeBelow(s, kubeadmRoot, kubeadmDiscovery),
		removeBelow(s, kubernetesRoot, bootstrapConf))
}

// kubeadmFiles are kubeadm's configuration, and the kubeconfig by which it finds the API server: with the
// cluster's CA, and nothing else, to trust. JSON is YAML as well.
func kubeadmFiles(c *taskcatalog.ClusterJoin, r registers) (join, discovery []byte, err error) {
	type object = map[string]any
	node := object{"name": c.Node}
	if len(r.labels) > 0 {
		node["kubeletExtraArgs"] = []object{{"name": "node-labels", "value": strings.Join(r.labels, ",")}}
	}
	if len(r.taints) > 0 {
		node["taints"] = r.taints
	}
	configuration := object{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration", "nodeRegistration": node}
	if r.patches != "" {
		configuration["patches"] = object{"directory": r.patches}
	}
	configuration["discovery"] = object{
		"file": object{"kubeConfigPath": path.Join(kubeadmRoot, kubeadmDiscovery)}, "tlsBootstrapToken": string(c.Key),
	}
	if join, err = json.Marshal(configuration); err != nil {
		return nil, nil, err
	}
	discovery, err = json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "contexts": []object{}, "current-context": "", "users": []object{},
		"clusters": []object{{"name": "", "cluster": object{"server": "https://" + c.Controller, "certificate-authority-data": []byte(c.CA)}}},
	})
	return join, discovery, err
}

// kubeadmAtRest waits for the end of a kubeadm that an earlier agent has begun.
func kubeadmAtRest(ctx context.Context, s *Step) error {
	for {
		active, err := s.Host.Systemd.Active(ctx, kubeadmUnit)
		if err != nil || !active {
			return err
		}
		s.Progress(0, "waits for "+kubeadmUnit)
		if err := host.Wait(ctx, kubeadmPause); err != nil {
			return err
		}
	}
}

// runKubeadm runs kubeadm as a service of its own: it starts units and mounts, which the agent's service
// may not, and an agent that restarts does not cut it off.
func runKubeadm(ctx context.Context, s *Step, id string) error {
	profile := profiles.ClusterTools()[id]
	if err := s.Host.Commands.Check(profile); err != nil {
		return err
	}
	argv, err := profile.Argv(nil)
	if err != nil {
		return err
	}
	output := path.Join(s.Host.StateDir, kubeadmLog)
	exit, err := s.Host.Systemd.Finish(ctx, host.Service{
		Unit: kubeadmUnit, Argv: argv, Env: kubeadmEnv, Output: output, Timeout: time.Duration(profile.TimeoutSeconds) * time.Second,
	})
	if err != nil || exit == 0 {
		return err
	}
	said, err := tail(s.Host.Machine, output, 4<<10)
	if err != nil {
		return err
	}
	said = strings.Join(strings.Fields(said), " ")
	return taskcatalog.Errorf(CodeKubeadmFailed, "kubeadm ended with %d: %s (log: %s)", exit, taskcatalog.Clean(said[max(0, len(said)-300):], 300), kubeadmLog)
}

// controlFiles are on a node of the control plane, which a reset would end.
var controlFiles = []string{"/etc/kubernetes/admin.conf", "/etc/kubernetes/manifests/kube-apiserver.yaml"}

// endK8s ends kubelet and its pods, and removes the node's certificate and what kubeadm has written. It
// leaves the packages, and looks whether pods have ended.
func endK8s(ctx context.Context, s *Step) (string, error) {
	for _, name := range controlFiles {
		if _, err := s.Host.Machine.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return "", errors.Join(err, taskcatalog.Errorf(CodeOtherMembership, "the node is one of a control plane: %s is there (kubeadm reset by hand)", name))
		}
	}
	if err := kubeadmAtRest(ctx, s); err != nil {
		return "", err
	}
	left, err := leftToEnd(s)
	if err == nil && len(left) > 0 {
		err = runKubeadm(ctx, s, "kubeadm_reset")
	}
	if err == nil {
		err = errors.Join(endUnit(ctx, s, kubeletUnit), dropTokens(s))
	}
	if err != nil {
		return "", err
	}
	left, err = leftToEnd(s)
	if err == nil && len(left) > 0 {
		err = taskcatalog.Errorf(CodeKubeadmFailed, "kubeadm reset ended well, and %s is still there (log: %s)", left[0], kubeadmLog)
	}
	if err == nil {
		err = podsEnd(ctx, s)
	}
	if err != nil {
		return "", err
	}
	links, err := linksLeft(s)
	ended := kubeletUnit + " has ended, and neither a certificate of a cluster nor anything of a pod is there"
	if len(links) > 0 {
		ended += "; links of a network plugin stay: " + strings.Join(links[:min(len(links), maxPodsLeft)], ", ")
	}
	return ended, err
}
