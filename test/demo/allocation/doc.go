// Command allocation shows a machine that goes from one tenant to the next, and back, without an
// operator: acme asks for a node, logs in, leaves files, processes and the memory of eight GPUs
// behind, and releases. The turnover begins by itself. beta gets the same machine and finds nothing.
// Each has a receipt that verifies without the broker. MAAS and the GPUs' library are simulated,
// the machine is a QEMU guest. The demo leaves nothing behind.
package main
