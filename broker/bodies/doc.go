// Package bodies bounds how long the body of a request may take, and refuses requests
// that are not text.
//
// # Rules
//
//   - Both stand around every handler of a listener, so that no route can be added outside.
//   - Before the server writes an answer it reads what is left of the body. Without a
//     deadline, whoever sends none of what was announced holds a handler that never looked
//     at the body.
package bodies
