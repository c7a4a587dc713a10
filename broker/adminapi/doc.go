// Package adminapi serves the operator API: the requests of people and their programs to the
// broker. Its main type is API. The types on the wire are in package api. All routes stand in one
// table, in routes.go, each with the role that the route needs, and for
// callers of a tenant the place of that role. A route without a role of tenants is the platform's.
//
// # Every request
//
//	text       path, query and headers are UTF-8                     400
//	who        a bearer token: known, not expired, not revoked       401
//	how often  the token's rate, and that of guessing addresses      429
//	route      the path is known, and takes the method          404, 405
//	may they   the route's role                                      403
//	what       a body of JSON, in time, not too large          415, 408, 413
//	           that parses and fits its schema; no unknown keys  400, 422
//	where      the node's site, for a token bound to sites           404
//	           the tenant's place, for a token of a tenant           404
//
// in this order. A node of another site, and what belongs to another tenant, is answered like a
// thing that does not exist. The token is checked before the route, so a caller without a valid
// token cannot learn which paths exist.
//
// # Answers
//
// Errors are problem details (RFC 9457) with a stable code; internal errors are logged and not
// shown. Text that nodes reported is untrusted: the broker bounded and cleaned the text on arrival,
// and this package escapes <, > and &.
//
// # Adding a route
//
// One line in the table, a function in the file of its noun, its types in package api and its line
// in that package's doc.go. The test of the roles walks the table and finds the new route by
// itself.
package adminapi
