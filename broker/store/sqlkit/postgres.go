package sqlkit

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

// ackPatience is how long a PostgreSQL server may leave sent data without an acknowledgement.
const ackPatience = 10 * time.Second

// Dialer connects to a PostgreSQL server. A server whose machine or network is gone sends no answer,
// not even an error. Sent data must therefore be acknowledged in time, and an idle connection is
// probed (TCP keepalive).
var Dialer = &net.Dialer{
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: ackPatience, Interval: 3 * time.Second, Count: 3},
	Control: func(network, _ string, c syscall.RawConn) (err error) {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		refused := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(ackPatience.Milliseconds()))
		})
		return errors.Join(refused, err)
	},
}

// Retryable reports whether a PostgreSQL server asks for the transaction to be run again, or an
// insert lost a race to an equal insert.
func Retryable(err error) bool {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return false
	}
	switch pe.Code {
	case "40001", "40P01", "23505": // serialization_failure, deadlock_detected, unique_violation
		return true
	}
	return false
}

// Lost reports whether an error means that the database is unreachable. Lost takes an error of any
// other network client for one of the database.
func Lost(err error) bool {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		switch {
		case strings.HasPrefix(pe.Code, "08"), // connection exceptions
			strings.HasPrefix(pe.Code, "57P"), // the server stops, starts, or ended this connection
			pe.Code == "53300",                // too many connections
			pe.Code == "25006":                // no writes: the server was, or became, a standby
			return true
		}
		return false
	}
	var connect *pgconn.ConnectError
	var op *net.OpError
	return pgconn.SafeToRetry(err) || pgconn.Timeout(err) || errors.As(err, &connect) || errors.As(err, &op) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}
