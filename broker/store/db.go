package store

import (
	"time"

	"go.uber.org/zap"
)

// Options say which database and whose clock.
type Options struct {
	URL string // sqlite:/path/hostler.db or postgres://…
	// Now is the clock. Nil is the database's: on PostgreSQL the server's, so
	// that the leases of all replicas run by one clock.
	Now func() time.Time
	Log *zap.Logger // nil: none
	// Exclusive refuses a second broker on the same SQLite file.
	Exclusive bool
}

// DB is the store. Its exported methods own their transaction and write the
// audit row inside it.
type DB struct {
	now func() time.Time
	log *zap.Logger
}
