// Command node shows Hostler's main job as a story of under five minutes, on this machine. A
// simulated MAAS region has a bare-metal machine, played by a QEMU guest. From its BMC's address
// the machine becomes a node, although MAAS answers 503 to calls, some of them carried out, and
// although the broker is killed. The node serves a tenant and is cleaned for the
// next tenant. Everything except MAAS, the GPUs and the tenant is real. The demo leaves nothing
// behind.
package main
