// Package readme runs what README.md and docs/tutorial/walk.md tell a newcomer to
// type, as it stands there, command by command. A page that is wrong fails the tests.
package readme
