// Package bodies bounds how long the body of a request may take.
//
// # Rules
//
//   - It stands around every handler of a listener: before the server writes an
//     answer it reads what is left of the body, so whoever sends none of what was
//     announced holds a handler that never looked at it.
package bodies
