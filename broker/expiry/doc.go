// Package expiry is the list of all that a broker runs on and that has an end: keys,
// certificates, operators' tokens, the login to Vault; when each ends, and what is to be
// done before. The status page, hostler doctor and the metrics are made from it.
//
// Node certificates and enrolment tokens are not in it: they end all the time, and
// their nodes see to that. A key of MAAS has no end that anybody is told; whether it
// is still taken shows when it is used (hostler site probe).
package expiry
