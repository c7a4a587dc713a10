// Package qemu boots real machines for tests: QEMU guests made of Debian
// packages, with systemd, cloud-init and users of their own.
//
// # Model
//
// An [Image] is a disk, a kernel and an initrd, built once from a recipe (packages.txt, rootfs/,
// image.go) and cached under the recipe's digest. The image contains nothing of Hostler: a guest
// gets its data from a NoCloud seed, as a bare-metal machine does. A [Guest] is one QEMU process
// over a copy-on-write layer of the image's disk. The guest ends with the test, whatever the test
// does, and with the process that started it, even if that process is killed.
//
// # Snapshots
//
// Booting takes most of a minute under emulation, loading a snapshot a second. So boot once, call
// [Guest.SaveVM] before the first case, and start every case with [Guest.LoadVM]. A loaded guest's
// clock still shows the moment of the save, so LoadVM sets the clock to the time that the test
// gives.
//
// A [Guest.Twin] has a copy of all snapshots of a guest and needs no boot of its own. A [Pool] is a
// guest and its twins, for tests that run side by side. An emulated guest keeps about one core
// busy, so a single guest would leave the other cores idle.
//
// # Power
//
// A guest with [Config].Flushes set may be killed with [Guest.Kill] at any moment and started with
// [Guest.Again] from its disks: all flushed data is there. Without Flushes a guest writes faster,
// and a kill may damage its disks.
//
// # Rules
//
//   - Software emulation is the default. KVM is used only after this process has booted a kernel
//     with KVM: /dev/kvm may exist and not work.
//   - Every wait is a condition and a deadline; see wait.go.
//   - A guest listens only on a forwarded ssh port on the host's loopback. A guest reaches
//     nothing, unless [Config].ReachHost is set: then it reaches the host at [HostAddress], and
//     everything that the host reaches.
//   - The harness makes the guest's ssh host key and passes it with the seed, so that the harness
//     can authenticate the guest.
package qemu
