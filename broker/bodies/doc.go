// Package bodies bounds how long the body of a request may take, and an answer, and refuses
// requests that are not text. It tells which methods a path takes.
//
// # Rules
//
//   - All stand around every handler of a listener, so that no route can be added outside.
//   - Before the server writes an answer it reads what is left of the body. Without a
//     deadline, whoever sends none of what was announced holds a handler that never looked
//     at the body.
//   - A client has a time to take each piece of an answer. So a long answer may take long, and
//     a handler whose client reads nothing ends. Between two pieces there is no deadline: over
//     HTTP/2 one that passes ends the answer, whether or not anything is being written.
//   - A handler that sets a write deadline of its own is left to it, until it takes it back.
package bodies
