// Package profiles is how hardware-neutral steps become what one machine really
// has: the format of resolver profiles, its validator, and the sets that ship
// with Hostler. Broker and agent share it; it runs nothing.
//
// # Model
//
// A Set is an ordered list of rules (hardware profiles) and a table of command
// profiles. A rule matches a machine whose facts have one of the wanted values
// for each key it names. The rules are walked from the top; the first that
// matches wins, as a whole: a step that the winner does not name is
// profile_missing, whatever later rules say. One rule, the fallback, matches
// everything; it counts last whichever file it stands in.
//
// For a step the winner names a command profile by id, or builtin:NAME, which
// is Go code of the agent. builtin:none means that there is nothing to do on
// this hardware.
//
// A command profile is one executable by absolute path, fixed arguments, and a
// typed schema of the arguments that a step may add. It is run by execve.
//
// # Rules
//
//   - What is wrong with a set is said as a whole: every problem with file, line
//     and code, and no Set beside them.
//   - Nothing that runs other programs from its arguments may be a command:
//     no shell, no interpreter, no sudo, no env; nor one that writes where they
//     say. Of systemctl, only whether a unit is active. See programs.go.
//   - An argument from a step is never empty, never begins with '-' and holds no
//     control character: its pattern must prove the first two.
//   - The YAML is plain: no anchors, aliases, tags, merges or second documents.
//   - A set travels as the JSON of Encode; Digest is over exactly that.
//
// # Files
//
// nvidia.yaml, amd.yaml and generic.yaml together are the set to start from.
// minimal.yaml is a set of its own, compiled into the agent for enrolment and
// recovery: it names no vendor, so every step is profile_missing.
// own/ has no sets: command profiles of the agent's own code, the only ones that may
// name what changes disks (disktools.yaml) or BMCs (bmctools.yaml, which only reads).
package profiles
