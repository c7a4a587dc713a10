// Package expiry lists everything that expires and that a broker depends on: keys, certificates,
// operators' tokens, the login to Vault. Each Item has its end and the way to renew it. The status
// page, hostler doctor and the metrics are made from the list. The package renews nothing.
//
// Node certificates and enrolment tokens are not listed, because some of them end all the time.
// Nodes renew their certificates by themselves. The end of a MAAS key is unknown; whether MAAS
// still accepts the key shows when the key is used (hostler site probe).
package expiry
