// Package oidctest is an OpenID Connect provider for tests: it publishes a description and keys over
// TLS, and signs whatever claims a test asks for. Its fields are the knobs.
package oidctest
