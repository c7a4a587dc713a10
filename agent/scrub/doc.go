// Package scrub is the plan of a GPU scrub: what is done to every GPU of a node
// between two tenants, in which order, and what is then known of each.
//
// # Plan
//
//	survey    which GPUs are there, beside those that the task expects and those
//	          on the bus
//	validate  gpu.driver.validate: a driver that is not whole proves nothing
//	quiesce   daemons that may be stopped are, then whoever holds a GPU
//	overwrite once more nobody holds them, all units side by side, each in a process
//	          of its own (agent/gpu)
//	verify    judged from what the overwrite measured
//	reset     per NVLink domain or XGMI hive, where the platform allows
//	probe     each unit that nobody holds again, in a new process, as the next tenant
//	          would
//	restore   settings back to those of the baseline
//	check     gpu.runtime.check and gpu.fabric.verify, where the profiles have them
//	health    holders, settings, ECC, remapped rows, Xid and RAS, scrub-on-free
//	put back  what was stopped, whatever happened
//
// A unit is a GPU, or each instance of it where it is partitioned. Every step is
// resolved by the node's profiles, and leaves a record.
//
// # Rules
//
//   - The first thing that is wrong with a unit is its code; its verdict only
//     gets worse. The other units go on.
//   - A tenant had root. Options of drivers are read from the drivers' own files; a
//     size is the largest that anybody says; a process is known by systemd's word
//     and its program, never by its cgroup or its number alone.
//   - A command of the site's takes the place of an overwrite, a reset or a restore
//     alone. Who holds a GPU, what a verify measured, what a probe sees and how the
//     GPU is are looked at by the agent in any case.
//   - Nobody is ended whom this machine does not show at the GPU.
//   - What is stopped is in the ledger before it is stopped, and leaves it only
//     once it runs again: PutBack does that after a crash too. That holds for what
//     is named. A service that held a GPU and is not may be the tenant's: it is
//     stopped, told, and never started again.
//   - A reset is proven by two witnesses at least: values that only a reset sets
//     back. An exit status proves nothing.
//   - A figure that was not measured is missing.
package scrub
