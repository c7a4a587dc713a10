// Package firstboot is what a node's first boot left on it: how its layers ended,
// and the secrets that it needed.
//
// # Model
//
// The layers of the user-data that the broker rendered (package cloudinit) keep how
// they ended below /var/lib/hostler-bootstrap. Layers reads that for the node's
// report. Strike overwrites the enrolment token, once it was used, and the hash of
// the deploy user's password, wherever cloud-init keeps a copy of the user-data.
// TurnOff keeps cloud-init from running again once Ours says that all is through. The
// agent calls it once for each enrolment, before the baseline.
//
// # Rules
//
//   - A secret is overwritten where it stands, with as many letters, and no file is
//     removed: what cloud-init keeps stays readable for it, its pickled data source
//     too. Without that a machine would ask for its data anew at each boot, and take
//     itself for another one where nobody answers.
//   - Only a token with the hash of the one that the node has enrolled with, and only
//     a hash with the mark that the broker puts into its salt: all other user-data,
//     vendor-data and MAAS's credentials, which the machine needs, are left alone.
//   - cloud-init is turned off, and not only watched. It carries out as root, at
//     every boot, what it finds in /var/lib/cloud, where a tenant with root may have
//     written; and it pickles its data source anew each time, with other bytes, any
//     of which may be code. Off, nothing there changes but by somebody's hand, and
//     node.validate_clean compares all of it. A machine that needs it again has a file
//     to remove, which is a finding until a new baseline. Nobody puts the file back: it
//     would hide that cloud-init ran.
//   - That is for machines that had a first boot of ours. How others boot is their
//     operator's to say.
//   - The token is struck once the unit that enrols is done, and that is on the disk.
//     It asks again with the token's file when it is cut before.
//   - Files are opened through os.Root, and only regular ones.
//   - What a record says is text that anybody with root may have written: it is
//     bounded and cleaned, and an operator reads it.
package firstboot
