// Package health looks at the GPUs of a node between two turnovers, and says how they are. Its main type
// is Watch: Look reads the GPUs once and returns the report that is in force.
//
// # A look
//
// A short-lived child process asks each vendor's library for all GPUs at once (gpu.Helper.Look), reads
// and changes nothing, and has ended before the look is judged. The bus and the kernel's log are read by
// the agent itself.
//
// # The judgement
//
// judge is a pure function of the state before, of what was seen, and of the rules. The rules are those of
// the resolver profiles: package profiles, type Health.
//
//   - A value that a GPU never had gives no verdict. One that it had and has no more is unknown.
//   - A value that says itself that it is not known (unknown_7, unreadable) is unknown.
//   - A rule may ask for several looks in a row. A lost look counts neither way; only several lost looks
//     in a row are unknown.
//   - A line of the kernel's log stays until the next boot or a proven reset of the GPU, because no later
//     look shows it again.
//
// # The state
//
// The state is one file, written before a report is handed on: the place in the kernel's log, the figures
// that rules compare with, and the lines that were found. A look that is repeated after a crash reads the
// same lines again and finds the same faults, and nothing is counted twice. Another boot id begins the
// kernel's log anew, and keeps the figures: errors that were counted across a boot are seen.
//
// # Quiet
//
// Report.Key has the verdicts and reasons without their figures. Only another key is news.
package health
