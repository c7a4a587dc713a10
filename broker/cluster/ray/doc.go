// Package ray is the adapter of clusters of Ray. The main type is Cluster, a cluster.Adapter. It speaks
// to the state API of the dashboard on the cluster's head node, with the cluster's authentication token.
//
// # What is asked
//
//	Membership  GET /api/v0/nodes, filtered by node_name=NAME and state=ALIVE
//	Join        GET /api/v0/nodes without the token, which must be refused
//	Drain       nothing: the dashboard has no such order
//
// Nodes join with their name in clusters as node_name, and with the label hostler.dev/node, by which a record is of
// this node. Ray gives a node a new id each time it starts, and
// keeps records of dead nodes, up to a thousand, that nobody can remove. A node of which all records are
// DEAD is therefore absent, and does not come back by itself. Ray takes any name for a node, so two nodes
// that are ALIVE with one name are unknown. So is the head: it is no node that joins or leaves.
//
// # How a node is drained
//
// Only the client program `ray drain-node` orders a drain. It speaks Ray's own protocol, in exactly the
// version of the cluster, and each member has it. So the node gives the order itself, by the id that
// Membership has. A drained raylet takes no new work, and ends by itself when it has none. Only then the
// dashboard says DEAD. Meanwhile it says ALIVE: it shows no drain. A node that somebody else drains
// counts as a member for that reason.
//
// # What a node joins with
//
// Ray 2.52 and later have one token for the whole cluster. Whoever has it runs code on every member. The
// adapter hands it out only while the dashboard refuses requests without a token: a cluster that does not
// ask for it runs code for anybody who reaches it. Two things follow, as for Slurm: the members of a
// cluster belong to one tenant, and a node that has left knows the token until its memory and disks are
// cleaned.
//
// All of this was read in Ray's source, and tried against a test server that answers as that source does.
// No test has met a real Ray.
package ray
