// Package packaging is how Hostler gets onto a machine: a .deb of the agent, a
// .deb of the broker with the operator's command, and their units. It holds no
// code; its tests hold it to what it promises.
//
//	deb/      nfpm's descriptions and the maintainer scripts
//	systemd/  the units, each with the reason for what it leaves open
//
// # The agent's files
//
//	/usr/lib/hostler-agent/versions/VERSION/hostler-agent   one folder a version
//	/usr/lib/hostler-agent/packaged                         link: the version that dpkg brought
//	/usr/lib/hostler-agent/current                          link: the version that runs
//	/usr/lib/hostler-agent/good                             link: the version that is known to work; the watcher runs from it
//	/usr/bin/hostler-agent                                  link: through current
//	/etc/hostler-agent/config.yaml                          what the node's owner says
//	/var/lib/hostler-agent/                                 0700: key, certificate, bundle, ledger
//
// dpkg and self-update share the folder without taking from each other: the
// package owns its version's folder and `packaged`; `current` and `good` belong
// to self-update. The maintainer script makes it only where it leads nowhere.
package packaging
