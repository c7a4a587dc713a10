// Package adminapi is the operator API: what people and their programs ask of
// the broker. What goes over the wire is in package api; all routes stand
// in one table, in routes.go, each with the role that it needs.
//
// # Every request
//
//	text       path, query and headers are UTF-8                     400
//	who     a bearer token that is known, not expired, not revoked   401
//	how often  the token's rate, and that of guessing addresses      429
//	route      the path is known, and takes the method          404, 405
//	may they   the route's role                                      403
//	what       a body of JSON, in time, not too large          415, 408, 413
//	           that parses and fits its schema; no unknown keys  400, 422
//	where      the node's site, for a token bound to sites           404
//
// in this order. A node of another site answers as one that does not exist. A
// path without a route is refused before its token was looked at as any other:
// nothing can be learned without one.
//
// # Answers
//
// Errors are problem details (RFC 9457) with a stable code; what is internal is
// logged and not told. What nodes reported is text that nobody trusts: it was
// bounded and cleaned when it came in, and <, > and & leave here escaped.
//
// # Adding a route
//
// One line in the table, a function in the file of its noun, its types in
// package api and its line in that package's doc.go. The test that walks
// the table with each role finds it by itself.
package adminapi
