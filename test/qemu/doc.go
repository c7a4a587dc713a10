// Package qemu boots real machines for tests: QEMU guests made of Debian
// packages, with systemd, cloud-init and users of their own.
//
// # Model
//
// An [Image] is a disk, a kernel and an initrd, built once from a recipe
// (packages.txt, rootfs/, image.go) and kept by the recipe's digest. Nothing of
// Hostler is in it: what a guest learns, it learns as a bare-metal machine does,
// from a NoCloud seed. A [Guest] is one QEMU process over a copy-on-write layer
// of that disk; it ends with the test, whatever the test does, and with the
// process that started it, even if that is killed.
//
// # Snapshots
//
// Booting takes most of a minute under emulation, loading a snapshot a second.
// So boot once, [Guest.SaveVM] before the first case, and start every case by
// [Guest.LoadVM]. A loaded guest believes it is still the moment of the save,
// so LoadVM sets its clock to the time that the test gives.
//
// A [Guest.Twin] has a copy of all that a guest has saved and needs no boot of its
// own. A [Pool] is a guest and its twins, for tests that run side by side: emulated,
// a guest keeps about one core busy, so one at a time leaves the others idle.
//
// # Power
//
// A guest whose [Config].Flushes is set may be killed with [Guest.Kill], from outside and
// at any moment, and started [Guest.Again] from its disks: what it had flushed is there.
// Without it a guest writes faster, and a kill may damage its disks.
//
// # Rules
//
//   - Software emulation is the default. KVM is used only after a kernel was
//     seen to boot with it in this process: /dev/kvm may exist and not work.
//   - Every wait is a condition and a deadline; see wait.go.
//   - A guest listens on nothing but a forwarded ssh port on the host's
//     loopback. It reaches nothing, unless [Config].ReachHost lets it reach
//     the host at [HostAddress], and through it what the host reaches.
//   - The guest's ssh host key is made by the harness and given by the seed,
//     so that the harness knows whom it talks to.
package qemu
