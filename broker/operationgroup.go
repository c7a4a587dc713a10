package broker

// OperationMember is an allocation of a project's group, or a node of the platform's, with what became of its nodes in the
// present attempt. Nodes that are not counted as succeeded, failed or skipped have not ended, or were never asked.
type OperationMember struct {
	AllocationID string `json:"allocation_id"`    // empty: the member is a node
	NodeID       string `json:"node_id,omitzero"` // empty: the member is an allocation
	Nodes        int    `json:"nodes"`            // so many of the operation's, in their order
	Succeeded    int    `json:"succeeded,omitzero"`
	Failed       int    `json:"failed,omitzero"`
	// Skipped nodes were asked for nothing: the project did not hold the allocation any more, or the operation could not
	// begin on the node any more.
	Skipped int `json:"skipped,omitzero"`
	// Code is that of the first node that failed, or why nodes were skipped; empty: neither.
	Code string `json:"code,omitzero"`
}

// Group is the selector of an operation on a group; empty: it is none.
func (o Operation) Group() string {
	if o.Target == TargetGroup {
		return o.TargetID
	}
	return ""
}

// MostOperationMembers bounds the allocations of a group.
const MostOperationMembers = 100

// OperationPart is an allocation of an operation with its nodes. A part of an operation on nodes has no allocation.
type OperationPart struct {
	AllocationID string
	NodeIDs      []string
}

// Member is the id of the allocation, or of the node.
func (p OperationPart) Member() string {
	if p.AllocationID == "" && len(p.NodeIDs) > 0 {
		return p.NodeIDs[0]
	}
	return p.AllocationID
}

// NodeGroup reports whether an operation is on a group of nodes, which the platform has alone.
func (o Operation) NodeGroup() bool { return o.Target == TargetGroup && o.ProjectID == "" }

// Parts are what an operation consists of: the members of a group, or all of it.
func (o Operation) Parts() []OperationPart {
	if o.Target != TargetGroup {
		return []OperationPart{{o.AllocationID, o.NodeIDs}}
	}
	parts, rest := make([]OperationPart, len(o.Members)), o.NodeIDs
	for i, m := range o.Members {
		n := min(m.Nodes, len(rest))
		parts[i], rest = OperationPart{m.AllocationID, rest[:n:n]}, rest[n:]
	}
	return parts
}

// Skipped counts the nodes of members that the project does not hold any more, and that were asked for nothing.
func (o Operation) Skipped() (nodes int) {
	for _, m := range o.Members {
		nodes += m.Skipped
	}
	return nodes
}

// BatchCount is how many batches the nodes make that are not skipped.
func (o Operation) BatchCount() int { return o.Batches.Count(len(o.NodeIDs) - o.Skipped()) }

// Width is how many allocations an operation works on at once: those of its widest batch.
func (o Operation) Width() int {
	width, place := 1, 0
	in := map[int]int{} // members by batch
	for _, p := range o.Parts() {
		if len(p.NodeIDs) == 0 {
			continue
		}
		first, last := o.Batches.Of(place), o.Batches.Of(place+len(p.NodeIDs)-1)
		for b := first; b <= last; b++ {
			in[b]++
			width = max(width, in[b])
		}
		place += len(p.NodeIDs)
	}
	return width
}

// Unbegun are the members of an operation as before an attempt.
func (o Operation) Unbegun() []OperationMember {
	all := make([]OperationMember, len(o.Members))
	for i, m := range o.Members {
		all[i] = OperationMember{AllocationID: m.AllocationID, NodeID: m.NodeID, Nodes: m.Nodes}
	}
	return all
}
