// Package platform reads what lies below the operating system: who may log in to the
// BMC and by which network, what the firmware boots and trusts, which versions it and
// the cards say they have, and which virtual functions are switched on.
//
// # Model
//
// Each row of the table of checks that is about the platform has one reading: settings
// by name, or the reason why the machine has nothing of the kind. The package knows no
// baseline and no verdict; whoever asks compares two readings.
//
// # Rules
//
//   - It only reads. The BMC is asked by ipmitool through command profiles that are
//     compiled in, and none of them has a word that changes anything; all else is read
//     from sysfs, procfs and one request of a network driver.
//   - "The machine has none" must be shown, not assumed. A machine has no BMC if its
//     SMBIOS table, read whole, has no management controller, and neither ACPI, the PCI
//     bus nor a driver knows one. A BMC that is there and cannot be asked is an error,
//     as is a machine that does not say.
//   - What was read before an error counts: a reading with an error may have settings.
//   - What ipmitool, a BMC and firmware say is untrusted: bounded, cleaned, and parsed
//     by its form. A BMC's users choose their names, so a line out of its place ends the
//     parse.
//   - What changes by itself is left out: counts of sessions, addresses that a DHCP
//     server gave, the entry that was booted.
//   - A community string is a password of sorts: it is kept as a digest. One that can be
//     guessed can be guessed from it.
//
// A version is what the firmware says of itself. IPMI tells no password, and what a BMC
// offers beside IPMI (Redfish, its web page, SSH keys) is not looked at.
package platform
