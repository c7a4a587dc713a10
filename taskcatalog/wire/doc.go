// Package wire defines the requests and replies of the agent API: architecture chapter 4. The
// broker and the agent use only these types; Decode reads all bodies. The package does no network
// I/O.
package wire
