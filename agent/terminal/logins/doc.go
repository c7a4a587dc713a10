// Package logins tells the node who is logged in by a terminal session, where the node keeps
// that: in utmp, which says who is there now, and in wtmp, which says who was. A node without
// these files has the journal alone; they are never made.
//
// A record is written in place of the one that its terminal had before, under the lock that
// the C library takes, so that who and last see a login as they do one over ssh: of the user,
// on the terminal, from "hostler:" and the session.
package logins
