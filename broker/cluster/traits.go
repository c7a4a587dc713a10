package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Traits are what a cluster knows of a node beside its state.
type Traits struct {
	Labels  []string // KEY=VALUE
	Taints  []string // KEY[=VALUE]:EFFECT
	Version string   // of the program that makes the node a member
	GPUs    int64    // that work can get; -1: the cluster's word is not understood
}

// wants are the traits that a step asks for.
type wants struct {
	labels, taints []string
	version        string
	gpus           int64
}

// wanted reads what a step of a plan asks of its node.
func wanted(plan *taskcatalog.OperationPlan, step string) (w wants) {
	for _, s := range plan.Steps {
		if s.ID == step && s.Kind == "cluster.verify" {
			w.labels, w.taints = texts(s.With["labels"].Literal), texts(s.With["taints"].Literal)
			w.version, _ = s.With["version"].Literal.(string)
			w.gpus, _ = s.With["gpus"].Literal.(int64)
		}
	}
	return w
}

func texts(v any) []string { all, _ := v.([]string); return all }

// hold makes a member that lacks what the step asks for one that the cluster still waits for. Its words say
// what is lacking.
func (w wants) hold(is Membership) Membership {
	if is.State != Member {
		return is
	}
	var lacks []string
	for _, l := range w.labels {
		if !slices.Contains(is.Traits.Labels, l) {
			lacks = append(lacks, "label "+l)
		}
	}
	for _, t := range w.taints {
		if !slices.Contains(is.Traits.Taints, t) {
			lacks = append(lacks, "taint "+t)
		}
	}
	if w.version != "" && is.Traits.Version != w.version {
		lacks = append(lacks, "version "+w.version+", it has "+is.Traits.Version)
	}
	if w.gpus > 0 && is.Traits.GPUs < w.gpus {
		has := strconv.FormatInt(is.Traits.GPUs, 10)
		if is.Traits.GPUs < 0 {
			has = "a number that is not understood"
		}
		lacks = append(lacks, fmt.Sprintf("%d GPUs, it has %s", w.gpus, has))
	}
	if len(lacks) > 0 {
		is.State = Joining
		is.Words = taskcatalog.Clean(is.Words+"; lacks "+strings.Join(lacks, "; "), maxLacks)
	}
	return is
}

// maxLacks bounds what is told of a member that lacks something, in bytes.
const maxLacks = 300
