package server

import (
	"errors"
	"net"
	"syscall"

	"github.com/hostler/hostler/broker"
)

// listen takes a port. Codes: address_in_use, bad_address.
func listen(addr, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	var op *net.OpError
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, broker.Errorf(broker.Unavailable, "address_in_use", "cannot listen on %s: another program has that port (stop it, or use %s)", addr, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, broker.Errorf(broker.Unavailable, "address_forbidden", "cannot listen on %s: ports below 1024 need CAP_NET_BIND_SERVICE (use %s)", addr, flag)
	case errors.As(err, &op):
		return nil, broker.Errorf(broker.Invalid, "bad_address", "cannot listen on %s: %v (use %s)", addr, op.Err, flag)
	}
	return nil, broker.Errorf(broker.Invalid, "bad_address", "cannot listen on %s: %v (use %s)", addr, err, flag)
}
