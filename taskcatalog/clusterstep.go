package taskcatalog

// ClusterNodeLabel is the label by which a record of a cluster says which node of this broker it is of. Its
// value is the node's id.
const ClusterNodeLabel = "hostler.dev/node"

// ClusterJoin is a credential cluster_join_token: what a node joins a cluster with, once.
type ClusterJoin struct {
	Node string `json:"node"` // the node's name in the cluster
	// ID is the node's id here, for ClusterNodeLabel where the cluster has labels; empty: there is no label.
	ID         string `json:"id,omitempty"`
	Controller string `json:"controller"` // HOST:PORT where the node reports
	Auth       string `json:"auth"`       // how the node authenticates, as the cluster's record says: munge
	Key        []byte `json:"key"`
	CA         string `json:"ca,omitempty"` // PEM; the controller's certificate must verify with it
}

// ClusterMembership is what a cluster itself says of a node, as the broker asked it for a step
// cluster.verify or cluster.leave.
type ClusterMembership struct {
	State string `json:"state"` // absent, joining, member, draining, drained, down or unknown
	Words string `json:"words"` // the cluster's own
	// ID is the cluster's own id of the node, where the node needs it to leave: Ray's.
	ID string `json:"id,omitempty"`
	// Controller and Node are of the cluster that was asked, and the node's name there, so that a node ends
	// no membership of another cluster. No controller: none is stored with the cluster, or the broker is older.
	Controller string `json:"controller,omitempty"`
	Node       string `json:"node,omitempty"`
	// Cut names work that the last order to the cluster has cut off, such as pods.
	Cut []string `json:"cut,omitempty"`
}

// The good states of a membership: of a node that is to be a member, and of one that is to be none.
const (
	ClusterMember = "member"
	ClusterAbsent = "absent"
)
