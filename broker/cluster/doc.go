// Package cluster is how the broker speaks to clusters that nodes join and leave. The main type is
// Adapter: what the broker asks a cluster, whatever schedules it.
//
// # Model
//
// A platform administrator stores a cluster: broker.Cluster, with a token of the cluster's API and
// the secret of its nodes among the broker's secrets (Access). A package below this one has an adapter
// for each backend: slurm, ray and k8s.
//
// # Rules
//
//   - Membership is what the cluster itself says of a node. The word of the node proves nothing.
//   - What an adapter does not understand is Unknown, and an answer about another node as well. Unknown
//     is never Member, and never Absent.
//   - A record that does not say by its label that it is of this node, where the cluster has labels, is Foreign:
//     it gets no order, and stops for a person.
//   - A node's name in a cluster is the first part of its host name. Nothing is asked about a name that
//     two nodes have, and no node joins while the cluster has an old record of its name.
//   - An order to a cluster is done when Membership says so afterwards, not when the cluster has
//     accepted it.
//   - A cluster is a stranger: its answers are bounded in size and time, its words are cleaned, and no
//     redirect is followed.
//   - Record and secrets belong to the same setting, or nothing is asked.
package cluster
