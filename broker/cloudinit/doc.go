// Package cloudinit renders what a machine is given so that it becomes a node:
// a cloud-config, or one line to paste.
//
// # First boot
//
// cloud-init writes files and starts one unit; systemd does the rest, so that
// a first boot has more than one try and survives a reset. There is no script:
//
//	hostler-bootstrap-clock      waits for the clock to be set, for a bounded time
//	hostler-bootstrap-fetch@N    fetches the package from source N and checks its
//	                             digest, unless an earlier source had it
//	hostler-bootstrap            checks the digest again, installs, enrols, starts
//	                             the agent; tried again until it has done so
//
// The sources are the broker with its pinned root, then the mirrors, then the
// broker once more with the certificate unchecked. What makes a package the
// right one is its digest, which came with the cloud-config; without the last
// source a clock that is years off would keep the agent out, and it is the
// agent that can name the offset.
//
// Between two tries curl backs off up to a minute and systemd pauses 20 s. The
// unit does not end with the token: a token that ran out may be extended, and
// then the next try enrols.
//
// # Rules
//
//   - The token is in one file of mode 0600 and in the user-data, never in an
//     argv or an environment.
//   - Every unit says on the console what it waits for.
//   - All that is put into a unit or a file is checked first: what could end a
//     line, a quote or a word is refused.
package cloudinit
