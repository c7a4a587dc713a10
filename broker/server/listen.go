package server

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/relay"
)

// takePorts takes the ports of all listeners. A port that cannot be taken does not keep the others
// from being tried, so that one refusal names all of them. Codes: as of listen.
func (s *Server) takePorts() error {
	var failed []*broker.Error
	took := func(err error, ports ...io.Closer) {
		if err != nil {
			failed = append(failed, broker.AsError(err))
			return
		}
		for _, port := range ports {
			s.onClose(port.Close)
		}
	}
	var err error
	s.operatorPort, err = listen(s.c.Listen, "--listen")
	took(err, s.operatorPort)
	s.agentPort, err = listen(s.c.AgentListen, "--agent-listen")
	took(err, s.agentPort)
	s.relayTCP, s.relayUDP, err = listenRelay(s.c.RelayListen)
	took(err, s.relayTCP, s.relayUDP)
	return joinErrors(failed)
}

// joinErrors is one error of several, with the code of the first.
func joinErrors(failed []*broker.Error) error {
	if len(failed) == 0 {
		return nil
	}
	all := make([]string, len(failed))
	for i, e := range failed {
		all[i] = e.Message
	}
	return broker.Errorf(failed[0].Kind, failed[0].Code, "%s", strings.Join(all, "; "))
}

// listen takes a port. Codes: address_in_use, address_forbidden, bad_address.
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
		return broker.Errorf(broker.Unavailable, "address_in_use",
			"cannot listen on %s: another program uses that port (stop it, or use %s)", addr, flag)
	case errors.Is(err, syscall.EACCES):
		return broker.Errorf(broker.Unavailable, "address_forbidden",
			"cannot listen on %s: ports below 1024 need CAP_NET_BIND_SERVICE (use %s)", addr, flag)
	case errors.As(err, &op):
		return broker.Errorf(broker.Invalid, "bad_address", "cannot listen on %s: %v (use %s)", addr, op.Err, flag)
	}
	return broker.Errorf(broker.Invalid, "bad_address", "cannot listen on %s: %v (use %s)", addr, err, flag)
}
