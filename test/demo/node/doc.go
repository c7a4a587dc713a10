// Command node tells Hostler's main job as one story of under five minutes, on this
// machine: a simulated MAAS region has a machine of bare metal, which is a QEMU guest.
// From its BMC's address it becomes a node, while MAAS answers 503 to what it does and
// does not do, and the broker is killed; it serves a tenant, and is cleaned for the next one. Everything in it is
// real but MAAS, the GPUs and the tenant. It leaves nothing behind.
package main
