package store

import (
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// lostRetry is the RetryAfter of a broker that has lost its database.
const lostRetry = 2 * time.Second

// ErrorOf returns the Error inside err. Beyond broker.AsError it maps the errors of a PostgreSQL
// server that is gone, or refuses writes just now, to store_unavailable. No restart is needed: the
// next statement makes a new connection.
func ErrorOf(err error) *broker.Error {
	var known *broker.Error
	if errors.As(err, &known) || !sqlkit.Lost(err) {
		return broker.AsError(err)
	}
	return &broker.Error{
		Kind: broker.Unavailable, Code: "store_unavailable", RetryAfter: lostRetry,
		Message: "cannot reach the database (retry in a moment: this broker reconnects by itself, and an interrupted change was either stored completely or not at all)",
	}
}
