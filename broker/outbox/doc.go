// Package outbox tells whoever listens what happened: a node's status changed, a
// run failed, a site was frozen. Events are CloudEvents 1.0, served one after the
// other and again from any of them that is still kept.
//
// # Model
//
// Whoever changes something writes a row into the table outbox, in the
// transaction of the change: there is no event without its change, and no change
// without its event. The process that leads gives each committed row its
// position (Keeper), and that is the event's id. A Feed hands pages to readers.
//
// # Why a position
//
// A database gives ids before the commit. Of two transactions the one with the
// smaller id may commit last, and a reader who has gone past it would never see
// it. So no reader sees a row before it has its position, and those are given
// to what has committed, by one writer at a time, each above all before:
//
//   - Who has seen position N never misses a smaller one.
//   - Positions have no gaps; ids of events are theirs alone, for ever.
//   - Two changes of one thing, the second made after the first had committed,
//     have their positions in that order.
//
// Time is when the row was written, at the end of its transaction, and not when
// that began: work that waited says when it was done. Between two events of
// different things it may step back a little; the order is that of positions.
//
// # Readers
//
// A reader asks for what comes after a position, and is given pages; nothing is
// held for it in memory, so one that is slow costs nothing and goes on where it
// was. It is told, and not given a gap, when what it asks for is no longer kept
// (events_forgotten) or has never been (event_unknown). Delivery is at least
// once: what was sent and not taken note of is sent again.
//
// # What is kept
//
// Events are kept for a time and up to a number, whichever ends first, oldest
// gone first. What nobody could read yet is not forgotten.
package outbox
