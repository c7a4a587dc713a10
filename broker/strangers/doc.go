// Package strangers bounds what the broker spends on clients that have not proved who they are.
//
// # Model
//
// A Room counts guests: connections, or requests that are being answered. A guest belongs to
// a holder. At first the holder is the source, the address that the guest comes from; an IPv6
// address counts with its whole /64, which one machine can have to itself. A guest that proves
// its name, by a node certificate or by a token, is vouched for: from then on its holder is
// that name, and the guest takes no stranger's place.
//
// A Listener puts each connection into a Room before the TLS handshake. Requests does the same
// with requests, as one HTTP/2 connection carries many of them.
//
// # Who makes way
//
// A full room does not simply refuse, or whoever fills it shuts everybody else out:
//
//   - A source that has its share gives up one of its own guests.
//   - A room that is full of strangers gives up a guest of the source that has the most. So a
//     single client that opens many connections competes with itself alone.
//   - Of one source the idle guests go first, those that are being answered after them, and
//     of either kind the oldest.
//   - A guest younger than Limits.Settle makes way only for a newcomer whose source has fewer
//     guests. Handshakes are so completed although more and more begin.
//   - The sources of names that were vouched for are known. A known source makes way last,
//     and its newcomers take the place of any guest of an unknown one. A tenant on a node
//     shares that node's source: what such a tenant can fill is the node's own share.
//
// # Invariants
//
//   - A Room never has more than Limits.All strangers, Limits.Source of one source (and one
//     more for each name known there), and Limits.Named guests of one name.
//   - Guests that were sent away and are not gone yet count as well: when there are as many of
//     them as Limits.All, only known sources are let in.
//   - Nothing is kept of an unknown source without guests.
package strangers
