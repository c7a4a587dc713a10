// Package profiles maps hardware-neutral steps to the programs of one machine: the format of
// resolver profiles, its validator, and the sets that ship with Hostler. The main type is Set.
// Broker and agent share the package; the package runs nothing.
//
// # Model
//
// A Set is an ordered list of rules (hardware profiles) and a table of command profiles. A rule
// matches a machine if, for each key of the rule, the machine's fact has one of the wanted values.
// Rules are tried from the top. The first matching rule wins completely: a step that the winner
// does not name is profile_missing, whatever later rules say. One rule, the fallback, matches every
// machine; it counts last, whatever file it is in.
//
// For a step, the winner names a command profile by id, or builtin:NAME, which is Go code of the
// agent. builtin:none means that there is nothing to do on this hardware.
//
// A command profile is one executable by absolute path, fixed arguments, and a typed schema of the
// arguments that a step may add. The agent runs it by execve.
//
// # Rules
//
//   - A faulty set gives no Set, but all its problems at once, each with file, line and code.
//   - A program that runs other programs from its arguments may not be a command: no shell, no
//     interpreter, no sudo, no env. The same holds for a program that writes where its arguments
//     say. Of systemctl, only the question whether a unit is active is permitted. See programs.go.
//   - An argument from a step is never empty, never begins with '-' and contains no control
//     character. Its pattern must prove the first two.
//   - The YAML is plain: no anchors, aliases, tags, merges or second documents.
//   - A set travels as the JSON of Encode; Digest is the digest of exactly this JSON.
//
// # Files
//
// nvidia.yaml, amd.yaml and generic.yaml together are the set to start from. minimal.yaml is a set
// of its own, compiled into the agent for enrolment and recovery: it names no vendor, so every step
// is profile_missing. own/ contains no sets, but command profiles of the agent's own code. Only
// these may name programs that change disks (disktools.yaml), access BMCs (bmctools.yaml, which only
// reads), install packages (packagetools.yaml), make Python environments (pythontools.yaml) or have the
// machine join a cluster (clustertools.yaml).
package profiles
