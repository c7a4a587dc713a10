// Package maas speaks to MAAS regions, and no other package does. Sites is its main type and the
// entry point: Sites provides a Region for each site, with the site's current token.
//
// # The client is tamed
//
// gomaasclient has no context and no time-out, retries POSTs by itself and follows redirects. Each
// operation of this package therefore makes a client of its own (without I/O) over a RoundTripper
// that carries the operation:
//
//   - its context, and a deadline by the class of the call: MAAS answers a call that switches power
//     only after the BMC has answered;
//   - the signature: no library gets the key, because their errors quote it;
//   - Retry-After ends in the error: the caller decides on a retry;
//   - no redirect is followed, answers are bounded, and no path leaves the API;
//   - the body of a 401 is dropped where it is read, because it can hold the secret.
//
// # Errors
//
// An Error has one class of a closed set. The class unknown_outcome needs care: a change was sent,
// and its result is not known. Read the machine before anything else; never send the change again.
//
// # Reading machines
//
// A list of machines is read once for all callers (Region.Machines), at most once a second. Waiting
// runs ask only for the machines that runs wait for (Region.AwaitedMachine). A run that searches
// accepts an older list where a list takes the region long (Region.RecentMachines). Before a
// decision on a machine, read the machine alone.
package maas
