// Package tasks holds the task handlers of a node: one handler for each task type of the catalog,
// in a file named after the type. The main type is Handler; Lookup finds the handler of a task
// type.
//
// # Model
//
// Before a handler gets a task, the inbox has verified, bounded and decoded the task. A handler
// looks before it acts: "already so" is success, so a task repeated after a crash does no harm. A
// handler fills a taskcatalog.Report with its findings and actions; the agent signs the report as
// evidence.
//
// # Rules
//
//   - A handler touches only its host.Host; tests replace parts of the Host.
//   - A handler stops soon after its context ends, and the report lists the work done so far. A
//     failed path is reported, and the handler continues with the next.
//   - Programs are run by argv with a fixed environment, never by a shell.
//   - Evidence names paths, uids, counts and digests. A process is reported as its command name and
//     executable; argv, environment and file contents are never read.
//   - A tenant's system-wide changes are found, but never repaired here.
//
// Long work has a package of its own, which the handler calls: users, cleanup, validate, scrub,
// erase, selfupdate, plan.
//
// The package does not verify signatures, store results or report to the broker: the agent does.
//
// # Adding a handler
//
// Add a file named after the type, and one line in the table of handler.go. A test compares the
// table with the catalog.
package tasks
