package taskqueue

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// admittedStatuses maps a type to the node statuses that admit it. Every enrolled node that is not
// deleted admits any other type. Whether a tenant may be let in is checked elsewhere: the store
// asks broker.Handout, with the node's row locked.
var admittedStatuses = map[string][]broker.NodeStatus{
	// Only a node that is being removed, or is still enrolling, is uninstalled.
	"node.uninstall": {broker.Removing, broker.Enrolling},
	// A node must be out of service before its disks are erased, so that no tenant loses a disk.
	"node.disk_erase": {broker.Draining, broker.Retired, broker.Quarantined},
}

// capabilityWeka is the reported capability of a node that can clean a weka file system.
const capabilityWeka = "weka"

// admit says whether a node may be given a task of this type with these params.
func admit(n broker.Node, typ taskcatalog.Type, params any) error {
	switch {
	case n.Status == broker.Deleted:
		return broker.Errorf(broker.Refused, "node_deleted", "cannot enqueue %s: node %s is deleted", typ.ID(), n.ID)
	case n.Epoch == 0:
		return broker.Errorf(broker.Refused, "node_not_enrolled", "cannot enqueue %s: node %s has not enrolled yet", typ.ID(), n.ID)
	case !slices.Contains(n.TaskTypes, typ.ID()):
		return broker.Errorf(broker.Refused, "task_type_unsupported",
			"cannot enqueue %s: the agent of node %s does not support this type (the agent reports %s)", typ.ID(), n.ID,
			strings.Join(n.TaskTypes, ", "))
	}
	for _, c := range requiredCapabilities(typ, params) {
		if v := n.Capabilities[c]; v == "" || v == "false" || v == "none" {
			return broker.Errorf(broker.Refused, string(taskcatalog.CodeCapabilityMissing),
				"cannot enqueue %s: node %s does not report the capability %s", typ.ID(), n.ID, c)
		}
	}
	if statuses, ok := admittedStatuses[typ.Name]; ok && !slices.Contains(statuses, n.Status) {
		return broker.Errorf(broker.Refused, "node_status", "cannot enqueue %s: node %s is %s, and the task needs a node that is %s",
			typ.ID(), n.ID, n.Status, words(statuses))
	}
	return nil
}

// requiredCapabilities lists the capabilities that the type and these params require.
func requiredCapabilities(typ taskcatalog.Type, params any) []string {
	caps := slices.Clone(typ.Capabilities)
	if p, ok := params.(*taskcatalog.StorageCleanupParams); ok && p.Scope != "local" {
		caps = append(caps, capabilityWeka)
	}
	return caps
}

func words(statuses []broker.NodeStatus) string {
	names := make([]string, len(statuses))
	for i, s := range statuses {
		names[i] = string(s)
	}
	return strings.Join(names, " or ")
}

// Admits refuses a type that Enqueue would refuse for the node's present state, so that a caller
// can check early: see admit.
func Admits(n broker.Node, name string) error {
	typ, err := taskcatalog.Latest(name)
	if err != nil {
		return asInvalid(err)
	}
	return admit(n, typ, nil)
}
