// Package tasks is what a node can do: one handler for each task type of the
// catalog, in a file of the type's name.
//
// # Model
//
// The inbox has already verified, bounded and decoded the task when a handler
// gets it. A handler looks before it acts: "already so" is success, so that a
// task repeated after a crash does no harm. It fills a taskcatalog.Report with
// what it found and did, which the agent signs as evidence.
//
// # Rules
//
//   - A handler touches only its host.Host; tests replace parts of that.
//   - A handler stops soon after its context ends and leaves what it did in
//     the report. It continues past one path that fails and says so.
//   - Programs are run by argv with a fixed environment, never by a shell.
//   - Evidence names paths, uids, counts and digests. A process is its command
//     name and executable; argv, environment and file contents are never read.
//   - What a tenant changed system-wide is found and never mended here.
//
// # Adding a handler
//
// A file named after the type, one line in the table of handler.go. The test
// there compares the table with the catalog.
package tasks
