// Package expiry lists everything with an end that a broker depends on: keys, certificates,
// operators' tokens, the login to Vault. Each Item says when it ends and how to renew it. The
// status page, hostler doctor and the metrics are made from the list. The package renews nothing.
//
// Node certificates and enrolment tokens are not listed: they end all the time, and their nodes
// renew them. The end of a MAAS key is unknown; whether MAAS still accepts the key shows when the
// key is used (hostler site probe).
package expiry
