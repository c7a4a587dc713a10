// Package command runs the programs that command profiles name, and nothing
// else.
//
// # Model
//
// Executable walks to a program from the machine's root, component by component
// through descriptors, and returns the open file: that very file is what runs,
// by /proc/self/fd, whatever the path leads to by then. Run gives it argv, the
// fixed environment, the account, a deadline and bounded outputs, and ends its
// process group whole.
//
// # Rules
//
//   - The program, each folder above it and each link on the way belong to root,
//     and nobody else may write them. So it is for the interpreter of a script.
//   - A name on the way that runs other programs (a link to a shell) is refused,
//     and so is a script for a shell, a set-uid program, and what is no program.
//   - A profile that is compiled into the agent (profiles.DiskTools, BMCTools, LogTools) may name what
//     no set may: its program is then allowed by its very name, and no other.
//   - Nothing is inherited but what the profile lists: no descriptor, no
//     variable, no terminal.
//   - What a program prints is untrusted: the cap is kept, the rest counted, and
//     Lines escapes what would reach a terminal.
//   - Whoever is left is killed also when the program has ended by itself: its
//     group, and what left the group and still bears the run's mark in its
//     environment. A process that shed both and keeps the output open is told as
//     command_left_processes; one that does not die of SIGKILL as command_stuck.
package command
