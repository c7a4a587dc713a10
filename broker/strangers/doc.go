// Package strangers bounds the broker's cost for clients that have not proved their identity. Its main
// type is Room.
//
// # Model
//
// A Room counts guests: connections, or requests being answered. A guest belongs to a holder. At first
// the holder is the source, the address of the guest; an IPv6 address counts with its whole /64, which
// a single machine can have to itself. A guest that proves its name, by a node certificate or by a
// token, is vouched for: from then on the name is the holder, and the guest takes no stranger's place.
//
// A Listener puts each connection into a Room before the TLS handshake. Requests does the same with
// requests, because one HTTP/2 connection carries many of them.
//
// # Who makes way
//
// A full room does not simply refuse newcomers, because then whoever fills the room would shut
// everybody else out:
//
//   - A source with its full share gives up one of its own guests.
//   - A room full of strangers gives up a guest of the source with the most guests. So a single client
//     with many connections competes with itself alone.
//   - Of a source's guests the idle guests go first, then the guests being answered; within each group
//     the oldest goes first.
//   - A guest younger than Limits.Settle makes way only for a newcomer whose source has fewer guests.
//     So handshakes complete although more and more begin.
//   - The sources of vouched names are known. A known source makes way last, and its newcomers take the
//     place of any guest of an unknown source. A tenant on a node shares that node's source, and can
//     fill only the node's own share.
//
// # Invariants
//
//   - A Room never has more than Limits.All strangers, Limits.Source guests of a single source (plus one
//     for each name known there), and Limits.Named guests of a single name.
//   - Guests that were sent away and are not gone yet count as well: when they number Limits.All, only
//     known sources are let in.
//   - Nothing is kept of an unknown source without guests.
package strangers
