// Package ray has a head of a cluster of Ray for tests, and tries the adapter of the broker and the steps of
// the node against it. NewHead is the entry.
//
// Head is no Ray: it is what Ray's source says of its edge. It answers requests to the state API, with and
// without the token, and it starts, drains and ends nodes by the units that the steps write: it reads the
// program, its arguments and its token from them, as systemd and Ray would.
package ray
