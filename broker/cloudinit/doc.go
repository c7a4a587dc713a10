// Package cloudinit renders what a machine is given so that it becomes a node:
// user-data for cloud-init, or one line to paste.
//
// # Form
//
// User-data is a MIME multipart of up to three parts. MAAS brings its hardware sync
// as vendor-data with write_files and runcmd, and a cloud-config of ours with either
// would replace that whole; so there is
//
//	hostler-cloud-config  the deploy user, by cloud-init's own module, and no other key
//	hostler-data          every value: files, links, and units to start
//	hostler-lay-out       one script, the same for all, which lays them out
//
// The data part says that it is a script of /bin/true, because cloud-init keeps
// scripts and runs them: a part of a type that it does not know is a warning. The
// script is a boothook, which runs at every boot and not once: cloud-init notes that
// it ran a script of the other kind before it does so, and a reset in between would
// leave a machine that never comes. What is laid out whole is noted, and not done
// again. When all is through the agent turns cloud-init off (package firstboot).
//
// All else is systemd's, so that a first boot has more than one try.
//
// # Layers
//
// In their order, each with a unit of its own; those behind the agent's do not wait
// for each other:
//
//	site         the site's own bundle: fetched, checked against its digest, run
//	agent        hostler-bootstrap-clock waits a bounded time for the clock to be set;
//	             hostler-bootstrap-fetch@N fetches the package from source N and
//	             checks it; hostler-bootstrap installs, enrols, starts the agent
//	hw-sync      looks whether MAAS's units arrived. It carries no machine token: MAAS
//	             makes that when it renders the deployment
//	disks        makes file systems on the disks that are named by their serials
//	roce         policy routing of the RoCE interfaces, at every boot
//	deploy-user  cloud-init's own module
//
// A layer keeps how it ended in /var/lib/hostler-bootstrap/layers, where the agent
// reads it. None keeps the agent from coming: who else would tell of it. The site's
// goes first and has 15 minutes.
//
// The sources of the package are the broker with its pinned root, then the mirrors,
// then the broker once more with the certificate unchecked. What makes a package the
// right one is its digest, which came with the user-data; without the last source a
// clock that is years off would keep the agent out, and it is the agent that can name
// the offset.
//
// Between two tries curl backs off up to a minute and systemd pauses 20 s. The
// unit does not end with the token: a token that ran out may be extended, and
// then the next try enrols.
//
// # Rules
//
//   - The token is in one file of mode 0600 and in the user-data, never in an
//     argv or an environment. The deploy user's password is there as a hash alone,
//     with a salt for each node.
//   - Both stand there in plain text of a known form, never encoded, so that the
//     agent finds and strikes them wherever cloud-init has put them.
//   - Every unit says on the console what it waits for.
//   - All that is put into a unit or a file is checked first: what could end a
//     line, a quote or a word is refused. Scripts read values, and evaluate none.
package cloudinit
