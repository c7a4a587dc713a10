package k8s

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
)

// maxWords bounds what is told of a node, and maxReason what is told of a reason, in bytes.
const maxWords, maxReason = 200, 200

// node is the part of a node that is read.
type node struct {
	typed
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Unschedulable bool    `json:"unschedulable"`
		Taints        []taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
		Allocatable map[string]string `json:"allocatable"`
		NodeInfo    struct {
			KubeletVersion string `json:"kubeletVersion"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// ready are the values of the condition Ready, each with the state of its node and the word of kubectl.
// A kubelet that reports a node which is not ready runs, and a Ready of Unknown means that it has not
// reported for a while.
var ready = map[string]struct {
	state cluster.State
	word  string
}{
	"True": {cluster.Member, "Ready"}, "False": {cluster.Joining, "NotReady"}, "Unknown": {cluster.Down, "Unknown"}, "": {cluster.Joining, "NotReady"},
}

// taints are the keys that Kubernetes itself sets, each with what it makes of a member. Keys of others say
// which pods a member takes.
var taints = map[string]cluster.State{
	"node.kubernetes.io/not-ready":                   cluster.Joining,
	"node.kubernetes.io/network-unavailable":         cluster.Joining,
	"node.kubernetes.io/unschedulable":               cluster.Joining, // for a moment after it was cordoned or uncordoned
	"node.kubernetes.io/memory-pressure":             cluster.Joining,
	"node.kubernetes.io/disk-pressure":               cluster.Joining,
	"node.kubernetes.io/pid-pressure":                cluster.Joining,
	"node.cloudprovider.kubernetes.io/uninitialized": cluster.Joining,
	"node.kubernetes.io/unreachable":                 cluster.Down,
	"node.kubernetes.io/out-of-service":              cluster.Down,
	"node.cloudprovider.kubernetes.io/shutdown":      cluster.Down,
}

var effects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

// judge makes a membership of a node. Of a node that is cordoned the pods decide: the state is Draining. One
// that nothing proves to be the wanted one is Foreign.
func judge(n *node, of cluster.Node) cluster.Membership {
	unknown := func(words string) cluster.Membership { return cluster.Membership{State: cluster.Unknown, Words: words} }
	switch {
	case n.APIVersion != "v1" || n.Kind != "Node":
		return unknown("the answer is no node")
	case n.Metadata.Name != of.Name:
		return unknown("the answer is about another node")
	case n.Metadata.UID == "":
		return unknown("the node has no uid")
	case n.Metadata.DeletionTimestamp != "":
		return unknown("the node is being deleted")
	}
	value, seen := "", 0
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			value, seen = c.Status, seen+1
		}
	}
	is, known := ready[value]
	if !known || seen > 1 || seen == 1 && value == "" {
		return unknown("the condition Ready is not understood")
	}
	state, words := is.state, []string{is.word}
	if n.Spec.Unschedulable {
		words = append(words, "SchedulingDisabled")
	}
	for _, t := range n.Spec.Taints {
		as, own := taints[t.Key]
		switch {
		case !slices.Contains(effects, t.Effect), !own && kubernetesOwn(t.Key):
			return unknown("a taint is not understood: " + taskcatalog.Clean(t.Key+":"+t.Effect, 100))
		case !own || t.Effect == "PreferNoSchedule":
			continue
		case as == cluster.Down || state == cluster.Member:
			state = as
		}
		if _, short, _ := strings.Cut(t.Key, "/"); short != "unschedulable" {
			words = append(words, short)
		}
	}
	if n.Spec.Unschedulable {
		state = cluster.Draining
	}
	if mine, named := n.Metadata.Labels[mark]; mine != of.ID || mine == "" {
		state = cluster.Foreign
		words = append(words, unmarked(mine, named))
	}
	_, reason := n.noted()
	m := cluster.Membership{State: state, Words: taskcatalog.Clean(strings.Join(words, ","), maxWords), Reason: reason, Traits: n.traits()}
	if state == cluster.Foreign {
		m.Prove = "run kubectl label node " + of.Name + " " + mark + "=" + of.ID
	}
	return m
}

// mark is the label that kubelet registers a node with, when it has joined by this broker: the node's id.
// NodeRestriction lets kubelet set it on its own node alone. Kubelet sets it only when it makes the node's
// record, so an older record of the name does not become this node's by a join.
const mark = taskcatalog.ClusterNodeLabel

func unmarked(label string, is bool) string {
	if !is {
		return "no label " + mark
	}
	return "label " + mark + "=" + taskcatalog.Clean(label, 63)
}

// kubernetesOwn reports whether a taint is of Kubernetes itself, which knows more of them with each
// release.
func kubernetesOwn(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == "node.kubernetes.io" || domain == "node.cloudprovider.kubernetes.io"
}

// controls reports whether a node is one of the control plane.
func (n *node) controls() bool {
	for _, role := range []string{"control-plane", "master", "etcd"} {
		if _, is := n.Metadata.Labels["node-role.kubernetes.io/"+role]; is {
			return true
		}
	}
	return false
}

// gpuResource is what the device plugin of NVIDIA calls GPUs. Kubernetes writes a whole number below a
// thousand as such.
const gpuResource = "nvidia.com/gpu"

func (n *node) traits() cluster.Traits {
	t := cluster.Traits{Version: taskcatalog.Clean(n.Status.NodeInfo.KubeletVersion, 64)}
	for key, value := range n.Metadata.Labels {
		t.Labels = append(t.Labels, key+"="+value)
	}
	for _, of := range n.Spec.Taints {
		key := of.Key
		if of.Value != "" {
			key += "=" + of.Value
		}
		t.Taints = append(t.Taints, key+":"+of.Effect)
	}
	if count, has := n.Status.Allocatable[gpuResource]; has {
		var err error
		if t.GPUs, err = strconv.ParseInt(count, 10, 64); err != nil || t.GPUs < 0 {
			t.GPUs = -1
		}
	}
	return t
}
