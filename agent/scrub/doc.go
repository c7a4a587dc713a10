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
//	reset     per NVLink domain or XGMI hive, where the platform allows. What settings
//	          only take with a reset joins it. Persistence mode is off meanwhile
//	again     where the reset brought a GPU back to its MIG or partition mode:
//	          overwrite and verify, of all of it
//	probe     each unit that nobody holds again, in a new process, as the next tenant
//	          would
//	restore   settings back to those of the baseline
//	check     gpu.runtime.check, gpu.fabric.verify and gpu.container_runtime.check,
//	          where the profiles have them and, of the last, the node has an engine.
//	          What fails here is no residue: nobody can tell whether the GPU works, and
//	          it is inconclusive. They ask the driver alone and need none of what was
//	          stopped; health comes after them and sees whom they left at a GPU
//	health    holders, settings, ECC, remapped rows, Xid and RAS, scrub-on-free
//	put back  what was stopped, whatever happened
//
// A unit is a GPU, or each instance of it where it is partitioned. Every step is
// resolved by the node's profiles, and leaves a record.
//
// # A GPU that a tenant divided
//
// Its mode is another than the baseline's: MIG was switched on, say. Its instances
// are overwritten first, as they are. Only then are they destroyed (the driver wants
// the compute instances gone first, and nobody on them), the mode is set, the GPU is
// reset, and all of it is overwritten once more. Three things forbid the shorter way,
// to change the mode at once:
//
//   - Setting the mode may reset a GPU by itself (Ampere), or take effect with no reset
//     at all (Hopper and later). Either would come before anything was overwritten or
//     counted, and the reset might then be refused.
//   - Destroyed instances give their memory back to the driver, which clears it only
//     if no option of it says otherwise.
//   - A reset that is refused leaves the GPU divided: what could be overwritten is.
//
// The second overwrite is not left out, because instances need not be all of the
// memory, and each mode has a reserve of its own. No second reset follows: nobody but
// the scrub was at the GPU since the first, which quiesce's looks say. The result is
// the GPU's, by the second overwrite and the probe; the residue is the sum of both,
// and what was wrong with an instance stays wrong. Where the mode cannot be changed
// (the task or the platform has no reset, settings are the site's), nothing of this is
// begun, and the result is the instances'.
//
// Instances of the baseline that are gone, or others in their place, stay a finding:
// the library can make instances, not those that were. A baseline has their uuids and
// neither sizes nor places, and which uuid a new one gets is the driver's to say. The
// site's own tool makes them, and a baseline taken anew names them.
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
//     stopped, told, and never started again. It is in the ledger too, until the next
//     scrub begins, so that a crash does not hide it. A daemon's name alone names
//     nobody: its unit is made of files of a package, or the site names it.
//   - A GPU whose persistence mode is switched off for a reset is in the ledger before,
//     and leaves it only once the mode is on again.
//   - A reset is proven by two witnesses at least: values that only a reset sets
//     back. An exit status proves nothing.
//   - A figure that was not measured is missing.
package scrub
