// Command link measures a terminal of Hostler's against one of OpenSSH, over the same link
// in the same run: how long a key takes until it is seen, where the link is slow and loses
// packets, and how much output comes in a second, where it is clean.
//
// It runs in a QEMU guest, as root, where its benchmark puts it (`make bench-terminal`),
// since it needs netem, which many kernels lack. The guest is the node, with its own sshd
// and the agent as it is packaged; the broker and both clients, hostler and ssh, are in a
// network namespace beside it. What joins the two is a veth pair, and on both of its ends
// netem. All programs are the real ones, and what differs is the client's command line
// alone: each has a terminal of its own here, on which is typed, and the same program runs
// in the terminal at the other end.
package main
