package store

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hostler/hostler/broker"
)

// lostRetry is the RetryAfter of a broker that has lost its database.
const lostRetry = 2 * time.Second

// ErrorOf returns the Error inside err. Beyond broker.AsError it maps the errors of a PostgreSQL
// server that is gone, or refuses writes just now, to store_unavailable. No restart is needed: the
// next statement makes a new connection.
func ErrorOf(err error) *broker.Error {
	var known *broker.Error
	if errors.As(err, &known) || !lost(err) {
		return broker.AsError(err)
	}
	return &broker.Error{
		Kind: broker.Unavailable, Code: "store_unavailable", RetryAfter: lostRetry,
		Message: "cannot reach the database (retry in a moment: this broker reconnects by itself, and an interrupted change was either stored completely or not at all)",
	}
}

// lost reports whether an error means that the database is unreachable. Other network clients of the
// broker give their errors codes of their own.
func lost(err error) bool {
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
	return pgconn.SafeToRetry(err) || pgconn.Timeout(err) || errors.As(err, &connect) || errors.As(err, &op) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}
