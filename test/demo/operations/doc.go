// Command operations shows operations on a node: it joins a real Slurm cluster, a job runs on it, a model
// is staged over a cut connection and an address that has expired, what nobody signed is refused, the node
// leaves the cluster, and the signed statement is verified without the broker. The cluster is Slurm 24.11
// in namespaces, the machine is a QEMU guest. The demo needs root, and leaves nothing behind.
package main
