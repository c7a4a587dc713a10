// Package baseline compares baselines: descriptions of a node's known good state. Diff compares two
// baselines, and Installed compares the baselines before and after an installation of the system. After an
// installation of another image, OtherImage compares only the hardware.
// The package takes no baselines; the agent does.
//
// A node's baseline was taken before any tenant was on the node. An installation of the same system
// by MAAS changes some of the baseline, such as the host keys of sshd. Installed ignores these
// differences and reports all others: a difference means another image, or a system that was
// changed after the installation.
package baseline
