// Package packaging contains the sources of Hostler's packages: a .deb of the agent, a .deb of the
// broker with the operator's commands, and their units. The package has no code; its tests verify
// the packages and units.
//
//	deb/      nfpm's descriptions and the maintainer scripts
//	systemd/  the units, each with the reason for every permission left open
//
// # The agent's files
//
//	/usr/lib/hostler-agent/versions/VERSION/hostler-agent   one folder per version
//	/usr/lib/hostler-agent/packaged                         link: the version that dpkg installed
//	/usr/lib/hostler-agent/current                          link: the version that runs
//	/usr/lib/hostler-agent/good                             link: the version that is known to work; the watcher runs from it
//	/usr/bin/hostler-agent                                  link: through current
//	/etc/hostler-agent/config.yaml                          settings of the node's owner
//	/var/lib/hostler-agent/                                 0700: key, certificate, bundle, ledger
//
// dpkg and self-update share the folder without conflict. The package owns its version's folder and
// `packaged`; `current` and `good` belong to self-update. The maintainer script sets `current` or
// `good` only if the link leads to no program; it does not create a missing `good`.
package packaging
