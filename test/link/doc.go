// Command link compares a terminal of Hostler with a terminal of OpenSSH, over the same link in the
// same run: the time until a typed key is shown, on a slow link that loses packets, and the output
// per second, on a clean link.
//
// The command runs in a QEMU guest, as root, where its benchmark puts it (`make bench-terminal`),
// because it needs netem, which many kernels lack. The guest is the node, with its own sshd and the
// packaged agent; the broker and both clients, hostler and ssh, are in a network namespace beside
// it. A veth pair joins the two, with netem on both ends. All programs are real, and only the
// client's command line differs: each client has a terminal of its own for the typed keys, and the
// same program runs in the terminal at the other end.
package main
