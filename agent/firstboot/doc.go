// Package firstboot handles the remains of a node's first boot: the outcome of its layers, and the
// secrets it needed. Its main functions are Layers, EraseSecrets and DisableCloudInit. The package does not run
// the first boot: cloud-init does.
//
// # Model
//
// The layers of the broker's user-data (package cloudinit) record their outcomes below
// /var/lib/hostler-bootstrap. Layers reads them for the node's report. EraseSecrets overwrites the
// used enrolment token, and the hash of the deploy user's password, in all copies of the user-data
// kept by cloud-init. DisableCloudInit keeps cloud-init from running again once Managed reports
// completion. The agent calls DisableCloudInit once per enrolment, before the baseline.
//
// # Rules
//
//   - A secret is overwritten in place, with the same number of characters, and no file is
//     removed: cloud-init's files stay readable for it, including its pickled data source.
//     Without them a machine would request its data anew at each boot, and would take
//     itself for a new instance if nobody answers.
//   - Only the token with the hash of the node's enrolment is overwritten, and only password
//     hashes with the broker's mark in the salt. Other user-data, vendor-data and MAAS's
//     credentials, which the machine needs, are left alone.
//   - cloud-init is turned off, not only monitored. At every boot it executes as root the
//     content of /var/lib/cloud, where a tenant with root may have written; and it pickles
//     its data source anew each time, with different bytes, any of which may be code. With
//     cloud-init off, these files change only by somebody's action, and
//     node.validate_clean compares all of them. To use cloud-init again, an operator
//     removes a file, which is a finding until a new baseline. The agent never restores
//     the file: this would hide that cloud-init ran.
//   - This applies to machines with a first boot run by Hostler. The operator decides how
//     other machines boot.
//   - The token is overwritten once the enrolling unit is done, and this is on disk. An
//     interrupted unit enrols again with the token file.
//   - Files are opened through os.Root, and only regular files.
//   - A record may have been written by anybody with root: its text is bounded and cleaned,
//     and an operator reads it.
package firstboot
