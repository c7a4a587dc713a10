// Package readme runs what README.md tells a newcomer to type, as it stands
// there, command by command. A README that is wrong fails the tests.
package readme
