package relay

import "net"

// retryFirst is quic.Transport's VerifySourceAddress: it decides whether a QUIC connection begins
// with a Retry, which proves the source address. Every connection does, not only under load: an
// unproved address is counted for nobody.
func retryFirst(net.Addr) bool { return true }
