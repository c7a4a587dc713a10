// Package scrub is the plan of a GPU scrub: which steps are done to every GPU of a node between two
// tenants, in which order, and what is then known of each GPU. Its main type is Scrub. The package
// talks to GPUs only through the helper processes of agent/gpu.
//
// # Plan
//
//	survey    find the GPUs, and compare them with the expected GPUs and with those
//	          on the bus
//	validate  gpu.driver.validate: a broken driver proves nothing
//	quiesce   stop the daemons that may be stopped, then end all other holders
//	overwrite the GPUs without a holder, all units side by side, each in a process
//	          of its own (agent/gpu)
//	verify    judge the figures measured by the overwrite
//	reset     per NVLink domain or XGMI hive, if the platform allows it; settings
//	          that take only with a reset are set before it; persistence mode is off
//	          meanwhile
//	again     if the reset brought a GPU back to its MIG or partition mode:
//	          overwrite and verify the whole GPU
//	probe     each unit without a holder again, in a new process, as the next tenant
//	          would
//	restore   the settings of the baseline
//	check     gpu.runtime.check, gpu.fabric.verify and gpu.container_runtime.check,
//	          if the profiles have them and, for the last, the node has an engine.
//	          A failure here is no residue: nobody can tell whether the GPU works, and
//	          the verdict is inconclusive. The checks ask the driver alone and need no
//	          stopped service; health follows them and finds holders they left behind
//	health    holders, settings, ECC, remapped rows, Xid and RAS, scrub-on-free
//	put back  the stopped services, whatever happened
//
// A unit is a GPU, or each instance of a partitioned GPU. Every step is resolved by the node's
// profiles, and leaves a record.
//
// # A GPU that a tenant divided
//
// The GPU's mode differs from the baseline: for example, MIG was switched on. Its instances are
// overwritten first, as they are. Only then are they destroyed (the driver requires that the
// compute instances are destroyed first and have no user), the mode is set, the GPU is reset, and
// the whole GPU is overwritten once more. Three facts forbid the shorter way, to change the mode at
// once:
//
//   - Setting the mode may reset a GPU by itself (Ampere), or take effect without a reset
//     (Hopper and later). Either would come before anything was overwritten or counted, and
//     the reset might then be refused.
//   - Destroyed instances give their memory back to the driver, which clears it only
//     if no driver option says otherwise.
//   - A refused reset leaves the GPU divided: by then the accessible memory is overwritten.
//
// The second overwrite is necessary, because instances need not cover all of the memory, and each
// mode has a reserve of its own. No second reset follows: nobody but the scrub used the GPU since
// the first reset, as the looks for holders show. The result is per GPU, from the second overwrite
// and the probe; the residue is the sum of both overwrites, and a fault of an instance stays a
// fault of the GPU. If the mode cannot be changed (the task or the platform has no reset, or the
// site restores settings), none of this is begun, and the results are per instance.
//
// Missing or replaced instances of the baseline stay a finding: the library can create instances,
// but not recreate the former ones. A baseline has their uuids, but neither sizes nor places, and
// the driver chooses the uuid of a new instance. The site's own tool creates them, and a new
// baseline then names them.
//
// # Rules
//
//   - The first fault of a unit sets its code; its verdict only gets worse. The
//     other units go on.
//   - A tenant had root. Driver options are read from the drivers' own files; a
//     size is the largest of all reported sizes; a process is identified by systemd
//     and by its program, never by its cgroup or its number alone.
//   - A command of the site replaces only an overwrite, a reset or a restore. The
//     agent itself always looks for holders, judges the verify, probes, and reads
//     the GPU's health.
//   - No process is ended unless this machine shows it at the GPU.
//   - A unit is in the ledger before it is stopped, and leaves the ledger only once
//     it runs again: PutBack does this after a crash as well. This holds for named
//     services. An unnamed service that held a GPU may be the tenant's: it is
//     stopped, reported, and never started again. It is in the ledger too, until the
//     next scrub begins, so that a crash does not hide it. A daemon's name alone is
//     no identification: its unit must consist of a package's files, or be named by
//     the site.
//   - A GPU whose persistence mode is switched off for a reset is in the ledger
//     before, and leaves the ledger only once the mode is on again.
//   - A reset is proven by at least two witnesses: values that only a reset sets
//     back. An exit status proves nothing.
//   - A figure that was not measured is missing.
package scrub
