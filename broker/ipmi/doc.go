// Package ipmi switches the power of a machine through its BMC, by IPMI 2.0 (RMCP+), with the ipmitool of
// the distribution. The main type is BMC, an implementation of machines.Power.
//
// # Rules
//
//   - The program is run by its argument vector with a fixed environment, and is killed when its time is
//     over.
//   - The password reaches the program through a pipe, which the program reads as its password file. It is
//     in no argument, no environment variable and no file.
//   - An answer is known or it is an error; a power that is neither on nor off is unknown. What the program
//     prints of its own is not repeated.
//
// # Trust
//
// IPMI proves the BMC by the shared password alone, and gives anybody who asks a hash of the password to
// guess with. Redfish is to be preferred where the machine has it.
package ipmi
