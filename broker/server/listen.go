package server

import (
	"errors"
	"net"
	"syscall"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/relay"
)

// listen takes a port. Codes: address_in_use, bad_address.
func listen(addr, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	return l, listenError(err, addr, flag)
}

// listenRelay takes a port for UDP and for TCP. Codes: as of listen.
func listenRelay(addr string) (net.Listener, net.PacketConn, error) {
	tcp, udp, err := relay.Listen(addr)
	return tcp, udp, listenError(err, addr, "--relay-listen")
}

func listenError(err error, addr, flag string) error {
	var op *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return broker.Errorf(broker.Unavailable, "address_in_use", "cannot listen on %s: another program has that port (stop it, or use %s)", addr, flag)
	case errors.Is(err, syscall.EACCES):
		return broker.Errorf(broker.Unavailable, "address_forbidden", "cannot listen on %s: ports below 1024 need CAP_NET_BIND_SERVICE (use %s)", addr, flag)
	case errors.As(err, &op):
		return broker.Errorf(broker.Invalid, "bad_address", "cannot listen on %s: %v (use %s)", addr, op.Err, flag)
	}
	return broker.Errorf(broker.Invalid, "bad_address", "cannot listen on %s: %v (use %s)", addr, err, flag)
}
