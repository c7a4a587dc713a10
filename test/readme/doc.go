// Package readme runs the commands of README.md and docs/tutorial/walk.md exactly as written. A
// wrong page fails the tests.
package readme
