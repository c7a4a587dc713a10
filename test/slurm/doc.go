// Package slurm starts a real Slurm cluster: Debian's programs in a root of their own, alone in
// namespaces. Run is the entry, for tests Start. A machine becomes a node over a Card in the network of the
// cluster, with the package of NodePackage. The root is made once, with mmdebstrap, and kept in the cache
// directory of the guests' images; it needs root and 150 MB.
//
// The programs are those of Debian 13 (Slurm 24.11), whatever the machine has: slurmrestd of Debian 12
// can neither drain nor remove nodes. The cluster uses auth/slurm, so it needs no munge.
package slurm
