// Package command runs the programs named by command profiles, and no others. Its main type is
// Runner. The package does not choose profiles: agent/resolver does.
//
// # Model
//
// Executable walks to a program from the machine's root, component by component through
// descriptors, and returns the open file. Exactly this file runs, by /proc/self/fd, even if the
// path changes meanwhile. Run gives the program argv, the fixed environment, the account, a
// deadline and bounded outputs, and ends its whole process group.
//
// # Rules
//
//   - The program, each folder above it and each link on the way belong to root, and
//     nobody else may write them. The same holds for the interpreter of a script.
//   - A name on the way that runs other programs (a link to a shell) is refused, and so
//     is a script for a shell, a set-uid program, and a file that is not executable.
//   - A profile compiled into the agent (profiles.DiskTools, BMCTools, LogTools) may name
//     a program forbidden to sets: the program is then allowed by its exact name only, or by
//     this name with a version behind it.
//   - A program inherits only what the profile lists: no descriptor, no other variable,
//     no terminal.
//   - A program's output is untrusted: it is kept up to the cap, the rest is counted, and
//     Lines escapes characters that would affect a terminal.
//   - Remaining processes are killed even if the program has ended by itself: its group,
//     and processes outside the group with the run's mark in their environment. A process
//     that shed both and keeps the output open is reported as command_left_processes; a
//     process that survives SIGKILL as command_stuck.
package command
