// Package terminals lets operators open, join and end terminal sessions, and ends sessions that
// must not continue. Its main type is Service. The relay connects the sides and records; package
// terminals decides who may use a session.
//
// # Model
//
// One function decides whether an operator may be on a node in a terminal (broker.TerminalAccess).
// Package terminals calls that function before a session is created, before an operator joins, and
// four times a second for every live session (Service.Run). So a condition that would prevent a
// session ends a running session within a second: the node is drained, quarantined or in a run, the
// allocation's user is removed, the operator's token is revoked or expires, the site's policy
// changes.
//
// An operator who has joined another operator's session needs his own right to be there. Without
// that right he is disconnected, and the session continues.
//
// The row of a session names the relay of one replica. A ticket is valid at every replica:
// the relay of the replica that gets the ticket takes the session, and a task sends the node's side
// there. The previous relay releases the session.
//
// A member of a project has sessions of the project's own allocations, with rules of their own
// (TerminalAccess judges a token of a tenant by them). A person who signed in by OIDC is in no table:
// the session's row has the role, the place and the end of the last ID token that its opener has shown.
// The session ends with that ID token, or at once when the person is denied. Each new ticket shows the
// present ID token, so that whoever renews the sign-in keeps the session. A project sees neither operators' sessions nor
// the reason of an end that is the node's.
//
// # A node that is away
//
// A terminal.open task sends the node to the relay. The task's outcome shows whether the node
// accepts the session. If the node refuses the task, the session ends with the reason. A node that
// is away for ten seconds is sent to the relay again, and again as long as the session waits. So a
// session survives a lost token. Once the session's process has started, such a task says so, and
// no second process is started. If the process was killed, the node reports the loss, and the
// session ends.
//
// # A relay that dies
//
// Relays with sessions report every few seconds that they are alive. A session is an orphan if its
// relay stops reporting, or if its relay does not know the session, as after a restart. An orphan
// is detached at once and lasts as long as a session without its operator: until then any replica
// can take the session over by a join. After that, or when the session must not continue, any
// replica ends the session. A task then tells the node, because no relay is there to do so.
package terminals
