// Package logins records the logins of terminal sessions in the node's utmp (present logins) and
// wtmp (past logins). Book holds the files. Missing files are never created: such a node has only
// the journal.
//
// A record replaces the previous record of its terminal, under the lock used by the C library.
// Programs such as who and last therefore show a login like a login over ssh: of the user, on the
// terminal, from "hostler:" and the session.
package logins
