// Package cloudinit renders the first-boot bundle that makes a machine a node: user-data for
// cloud-init (Render), or one line to paste (Command). Input is its main type. The package renders
// text, and talks to no machine.
//
// # Form
//
// User-data is a MIME multipart of up to three parts. MAAS brings its hardware sync as vendor-data
// with write_files and runcmd, and a cloud-config with either would replace the vendor-data whole.
// The parts are therefore:
//
//	hostler-cloud-config  the deploy user, by cloud-init's own module, and no other key
//	hostler-data          every value: files, links, and units to start
//	hostler-lay-out       one script, the same for all, which lays them out
//
// The data part begins as a script of /bin/true, because cloud-init keeps and runs scripts, and
// warns of a part with an unknown type. The lay-out script is a boothook, which runs at every boot.
// For a script of the other kind, cloud-init records the run before it begins, and a reset in
// between would leave a machine that never enrols. A complete lay-out is recorded, and not
// repeated. When all is done the agent turns cloud-init off (package firstboot).
//
// Everything else is systemd's work, so that a first boot can be retried.
//
// # Layers
//
// The layers in their order, each with a unit of its own; layers after the agent's do not wait for
// each other:
//
//	site         the site's own bundle: fetched, checked against its digest, run
//	agent        hostler-bootstrap-clock waits a bounded time for the clock to be set;
//	             hostler-bootstrap-fetch@N fetches the package from source N and
//	             checks it; hostler-bootstrap installs, enrols, starts the agent
//	hw-sync      checks that MAAS's units arrived. It carries no machine token: MAAS
//	             makes the token when it renders the deployment
//	disks        makes file systems on the disks with the given serials
//	roce         policy routing of the RoCE interfaces, at every boot
//	deploy-user  cloud-init's own module
//
// A layer records its result in /var/lib/hostler-bootstrap/layers, where the agent reads it. No
// failed layer keeps the agent from enrolling, because the agent must report the failure. The
// site's layer is the first and has 15 minutes.
//
// The sources of the package are the broker with its pinned root, then the mirrors, then the broker
// once more without a check of the certificate. The package is identified by its digest, which came
// with the user-data. Without the last source a clock that is years off would keep the agent out,
// and the agent is needed to report the offset.
//
// Between two tries curl backs off up to a minute and systemd pauses 20 s. The unit does not end
// with the token: an expired token may be extended, and then the next try enrols.
//
// # Rules
//
//   - The token is in one file of mode 0600 and in the user-data, never in an argv or an
//     environment. The deploy user's password is present only as a hash, with a salt for each node.
//   - Token and hash are plain text of a known form, never encoded, so that the agent finds and
//     removes them wherever cloud-init has put them.
//   - Every unit reports on the console what it waits for.
//   - Every value is checked before it is put into a unit or a file: characters that could end a
//     line, a quote or a word are refused. Scripts read values, and evaluate none.
package cloudinit
