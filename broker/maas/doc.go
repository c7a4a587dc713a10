// Package maas speaks to MAAS regions, and is the only package that does. Sites
// is what others begin with: it knows a Region for each site, with the token as
// it is when it is used.
//
// # The client is tamed
//
// gomaasclient has no context, no time-out, retries POSTs by itself and follows
// redirects. Each operation here therefore makes a client of its own (that is no
// I/O) over a RoundTripper that carries the operation:
//
//   - its context, and a deadline by the class of the call: MAAS answers what
//     switches power only after the BMC has;
//   - the signature: the key is given to no library, whose errors quote it;
//   - Retry-After goes no further than the error: whoever asks decides on a retry;
//   - no redirect is followed, answers are bounded, and no path leaves the API;
//   - the body of a 401 is dropped where it is read: it can hold the secret.
//
// # Errors
//
// An Error has one class of a closed set. unknown_outcome is the one to mind: a
// call that changes something was sent, and what came of it is not known. Read
// the machine before anything else; never send it again.
//
// # Reading machines
//
// A list of machines is read once for all who ask (Region.Machines), no more than
// once a second, however many there are. Runs that wait ask for the machines that are
// waited for and no others (Region.Awaited). A run that searches takes an older list where
// the region works on one for long (Region.Lately). Decide on a machine by reading it alone, right before.
package maas
