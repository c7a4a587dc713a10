// Package bodies bounds the time of request bodies and of answers (InTime), refuses requests that
// are not text (OnlyText), and lists the methods of a path (Allowed). It does not decode bodies.
//
// # Rules
//
//   - InTime and OnlyText wrap the whole handler of a listener, so that no route can be added
//     outside of them.
//   - Before the server writes an answer, it reads the rest of the request's body. Without a
//     deadline, a client that does not send an announced body blocks a handler that never reads the
//     body.
//   - A client has a time limit for each piece of an answer. So a long answer may take long, but a
//     handler whose client reads nothing ends. Between two pieces there is no deadline, because
//     over HTTP/2 an expired deadline ends the answer, whether or not anything is being written.
//   - A write deadline that a handler sets stays in force until the handler clears it.
package bodies
