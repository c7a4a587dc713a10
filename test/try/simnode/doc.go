// Package simnode is a GPU node that no machine stands behind: the real agent over a directory that
// stands for the node's file system, and over the GPU fakes of test/fakegpu. Node is the main type.
//
// # What is real
//
// The agent is the code that runs in the field, from its enrolment to its evidence, with its own
// task handlers. The GPU scrub runs in child processes of the built agent, against libraries with
// the ABI of NVIDIA's. The memory of the GPUs is files that keep what was written.
//
// # What is simulated
//
// The node's file system, /proc and /sys among it, is a directory (files); systemd has no units;
// the kernel of the node has no BPF programs, no firewall rules and no log but that of the fake
// GPUs (handlers).
//
// # Invariants
//
//   - The node needs no root and changes nothing outside its directory: every change of the agent
//     goes through its Machine, which is that directory.
//   - The node has one process, number 1, of no tenant and in no container, so that no task signals a
//     process. Its root is an ext2, so that no task trims a disk.
package simnode
