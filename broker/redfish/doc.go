// Package redfish switches the power of a machine through its BMC, by Redfish. The main type is BMC, an
// implementation of machines.Power. The package is the only importer of gofish.
//
// # Trust
//
// A BMC proves itself in one of three ways (Trust): by the SHA-256 of its certificate, by a CA, or not at
// all. The last needs a reason, which its caller keeps. A pinned certificate needs no name and no valid
// dates: most BMCs come with a certificate for another name, and it expires. Without any of the three
// nothing is opened.
//
// # Rules
//
//   - Only the given host is spoken to, by HTTPS. A link or a redirect to another host is refused, because
//     the login goes along. A POST is never redirected.
//   - An answer has at most 1 MiB, a call at most a minute. No proxy of the environment is used.
//   - A login becomes a session, which ends with the call. A BMC without sessions gets Basic authentication.
//   - A session that expired in the middle is opened again once, for looks alone.
//   - Errors repeat a status and a message id of the BMC, never its text, which can repeat the request.
//
// # What gofish does not do
//
// Version 0.21.0 sends a reset to the address of another action (RemoveResourceBlock). The reset is posted
// here, to the address that the system names.
package redfish
