// Package outbox publishes events to listeners: a node's status changed, a run failed, a site was
// frozen. Events are CloudEvents 1.0, served in order, and again from any event that is still kept.
// The main types are Keeper and Feed. Package outbox pushes nothing: readers ask. Package nats below
// it relays events to NATS.
//
// # Model
//
// The transaction that changes something also writes a row into the table outbox: there is no event
// without its change, and no change without its event. The leading process gives each committed row
// its position (Keeper), and the position is the event's id. A Feed hands pages to readers.
//
// # Why a position
//
// A database assigns ids before the commit. Of two transactions the one with the smaller id may
// commit last, and a reader who has passed that id would never see its event. Therefore a row is
// invisible to readers until it has a position. One writer at a time gives positions to committed
// rows, each above all earlier positions:
//
//   - A reader who has seen position N never misses a smaller position.
//   - Positions have no gaps; the id of an event is never reused.
//   - Two changes of one thing, the second made after the commit of the first, have positions in
//     that order.
//
// The time of an event is when its row was written, at the end of its transaction, not at its
// beginning: work that waited reports when it was done. Between two events of different things the
// time may step back a little; positions give the order.
//
// # Readers
//
// A reader asks for the events after a position and gets pages. Nothing is held in memory for a
// reader, so a slow reader costs nothing and continues where it was. A reader is told if the
// requested events are no longer kept (events_forgotten) or never existed (event_unknown), and
// never gets a silent gap. Delivery is at least once: an event that the reader did not record is
// sent again.
//
// # Projects
//
// An event of an allocation or an operation also belongs to its project, which has a feed of its own. A
// position counts the events of all, so a project never sees one. It sees a ProjectIDs id, which is
// the position, encrypted for the project. Readers of projects are woken by events of projects
// alone, and are counted apart from the platform's: by token, by project, by organisation and in all.
// Half of all their places are for organisations that have fewer than Few readers, so that a few
// organisations with many readers shut nobody out.
//
// # What is kept
//
// Events are kept for a time and up to a number, whichever ends first; the oldest are deleted
// first. Events without a position, which no reader could see yet, are not deleted. What a relay has
// not passed on is kept twice as long and as much.
package outbox
