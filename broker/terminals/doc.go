// Package terminals lets operators open, join and end terminal sessions, and ends those
// that must not go on. The relay joins the sides and records; this says who may.
//
// # Model
//
// Whether somebody may be on a node in a terminal is judged in one place
// (broker.TerminalAccess): before a session is made, before it is joined, and, by the
// watch, four times a second as long as it lasts. So what would not let a session begin
// ends it within a second: the node is drained, quarantined or in a run's hands, its
// allocation's user is taken away, the operator's token is revoked or expires, the site's
// policy changes.
//
// Who has joined another's session is held to his own right to it: without that he leaves,
// and the session goes on.
//
// A session is at the relay of one replica, and its row says at which. A ticket is good at
// any replica: where it is shown, the relay takes the session, and a task sends the node's
// side there. The relay that had it lets go.
//
// # A node that is away
//
// Whether the node takes a session is seen by the task that sends it to the relay. Was that
// refused, the session ends with the reason. A node that is away for ten seconds is sent
// there again, and again as long as the session waits for it: so a session outlasts a token
// that was lost. Once the session's process has begun, such a task says so, and none is
// started for it again: where it was killed, the node says so, and the session ends.
//
// # A relay that dies
//
// Relays that have sessions say every few seconds that they live. A session whose relay
// does not any more, or that its relay does not know, as after a restart, is an orphan.
// It is detached at once and lasts as long as one without its operator: until then it can
// be joined again, at any replica. Then, or as soon as it must not go on, any replica ends
// it: the node is told by a task, since no relay is there to tell it.
package terminals
