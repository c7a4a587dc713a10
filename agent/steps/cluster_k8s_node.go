package steps

import (
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// registers is what kubelet registers its node with, beside its name, and where its configuration has additions.
type registers struct {
	labels  []string
	taints  []k8sTaint
	patches string // a directory; empty: kubelet's configuration is the cluster's
}

// k8sTaint is a taint, as kubeadm's configuration has it.
type k8sTaint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// kubeletPatch is the name by which kubeadm knows a file that it merges into kubelet's configuration.
const kubeletPatch = "kubeletconfiguration+merge.yaml"

var (
	taintKey     = lazyregexp.New(`^([a-z0-9]([a-z0-9.-]{0,98}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	taintValue   = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	taintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
	patchRoot    = lazyregexp.New(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)
)

// registration reads what a step says of the node. A taint of Kubernetes itself is refused: it says what
// the cluster finds, and takes it away by itself.
func registration(s *Step) (r registers, err error) {
	refuse := func(why string) (registers, error) {
		return registers{}, taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot join: %s", why)
	}
	for _, text := range s.Args.Texts("taints") {
		t, ok := taintOf(text)
		switch {
		case !ok:
			return refuse("a taint is not KEY=VALUE:EFFECT or KEY:EFFECT, with one of the effects " + strings.Join(taintEffects, ", "))
		case ownLabel(t.Key + "="):
			return refuse("a taint is of Kubernetes itself (kubernetes.io, k8s.io), which sets and removes them by what it finds")
		case slices.ContainsFunc(r.taints, func(o k8sTaint) bool { return o.Key == t.Key && o.Effect == t.Effect }):
			return refuse("two taints have one key and effect, of which a node has one")
		}
		r.taints = append(r.taints, t)
	}
	if file := s.Args.Text("kubelet"); file != "" {
		if r.patches = path.Dir(file); file != path.Join(r.patches, kubeletPatch) || !patchRoot.MatchString(r.patches) {
			return refuse("the file for kubelet's configuration has another name than " + kubeletPatch + ", so kubeadm would pass over it")
		}
	}
	return r, onlyOwnPatch(s, r.patches)
}

// onlyOwnPatch refuses a directory of patches that has another file: kubeadm would merge it as well, and anyone who
// was root here before may have left it.
func onlyOwnPatch(s *Step, dir string) error {
	if dir == "" {
		return nil
	}
	names, err := s.Host.Machine.Names(dir)
	if err != nil {
		return err
	}
	if other := slices.DeleteFunc(names, func(name string) bool { return name == kubeletPatch }); len(other) > 0 {
		return taskcatalog.Errorf(taskcatalog.CodePathRefused, "cannot join: %s has %s beside %s, and kubeadm would merge it as well (look at it and remove it)",
			dir, taskcatalog.Clean(slices.Min(other), 100), kubeletPatch)
	}
	return nil
}

func taintOf(text string) (k8sTaint, bool) {
	what, effect, _ := strings.Cut(text, ":")
	key, value, valued := strings.Cut(what, "=")
	ok := taintKey.MatchString(key) && (!valued || taintValue.MatchString(value)) && slices.Contains(taintEffects, effect)
	return k8sTaint{key, value, effect}, ok
}
