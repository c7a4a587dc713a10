// Package slurm is the adapter of clusters that Slurm schedules. The main type is Cluster, a
// cluster.Adapter. It speaks to slurmrestd, the REST API of Slurm's controller, with a JSON Web Token.
//
// # What is asked
//
//	Membership  GET    /slurm/VERSION/node/NAME
//	            GET    /slurm/VERSION/nodes/?update_time=…   of a node that is draining
//	Drain       POST   /slurm/VERSION/node/NAME  {"state":["DRAIN"],"reason":…}
//	Remove      DELETE /slurm/VERSION/node/NAME
//
// VERSION is the first of a short list that the server has. A slurmrestd before Slurm 23.11 has none of
// them: it can neither drain nor remove nodes. An unknown node is no fault to slurmrestd: it answers
// without nodes and with the error number 0, or with 2018.
//
// # What a node joins with
//
// Slurm has no token for one node. Whoever joins shows the key that all members share: munge.key with
// auth/munge, slurm.key with auth/slurm. The adapter hands out this key, which an administrator has
// stored with the cluster. Two things follow. Whoever is root on a member can speak for any user of
// the cluster, its administrator among them: the members of a cluster belong to one tenant, and a
// cluster serves the operations of one project. A node that has left still knows the key, unless its
// memory and disks were cleaned: a turnover does that.
//
// # Names
//
// Slurm reads a node's name in an order as a list: n[1-9] and ALL are many nodes. The adapter takes
// plain lower-case names alone, and orders nothing before the controller has answered with exactly
// that one node.
package slurm
