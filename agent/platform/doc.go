// Package platform reads the settings below the operating system: who may log in to the BMC and
// over which network, what the firmware boots and trusts, the reported firmware versions of machine
// and cards, and the enabled virtual functions. Its main type is Platform.
//
// # Model
//
// Each row of the table of checks about the platform has a reading: settings by name, or the reason
// why the machine has nothing of the kind. The package knows no baseline and no verdict; the caller
// compares two readings.
//
// # Rules
//
//   - The package only reads. The BMC is queried by ipmitool through compiled-in command
//     profiles, and none of them can change anything; the rest is read from sysfs,
//     procfs and a request to the network driver.
//   - "The machine has none" must be shown, not assumed. A machine has no BMC if its
//     complete SMBIOS table has no management controller, and neither ACPI, the PCI bus
//     nor a driver knows a controller. A BMC that does not answer is an error, and so is
//     a machine where the question cannot be answered.
//   - Settings read before an error count: a reading with an error may have settings.
//   - The output of ipmitool, a BMC and firmware is untrusted: bounded, cleaned, and
//     parsed strictly. A BMC's users choose their names, so an unexpected line ends the
//     parse.
//   - Values that change by themselves are left out: counts of sessions, addresses from a
//     DHCP server, the booted entry.
//   - A community string is a kind of password: it is kept as a digest. A guessable
//     string can be guessed from the digest.
//
// A version is the firmware's own report. IPMI reveals no password, and a BMC's services beside
// IPMI (Redfish, its web page, SSH keys) are not examined.
package platform
