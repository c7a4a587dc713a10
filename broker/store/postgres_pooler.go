package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hostler/hostler/broker"
)

// probePatience is how long the test notification of keepsSessions may take.
const probePatience = 5 * time.Second

// keepsSessions refuses a pooler in transaction mode. Behind such a pooler each transaction may use
// another server connection: a notification never reaches the listening connection, and an advisory
// lock stays with a session that no client has. The server's settings do not reveal the pooler, so
// keepsSessions sends a notification and waits for it. Code: store_pooled.
func (e *postgresEngine) keepsSessions(ctx context.Context) error {
	unreached := func(err error) error {
		return broker.Errorf(broker.Unavailable, "store_unavailable", "cannot reach PostgreSQL at %s:%d: %v", e.config.Host, e.config.Port,
			err)
	}
	conn, err := pgx.ConnectConfig(ctx, e.config)
	if err != nil {
		return unreached(err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only ends
	channel := fmt.Sprintf("hostler_probe_%016x", rand.Uint64())
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return unreached(err)
	}
	if _, err := e.pool.ExecContext(ctx, `SELECT pg_notify($1, '')`, channel); err != nil {
		return unreached(err)
	}
	waiting, done := context.WithTimeout(ctx, probePatience)
	defer done()
	if _, err := conn.WaitForNotification(waiting); err != nil {
		if waiting.Err() == nil || ctx.Err() != nil {
			return unreached(err)
		}
		return broker.Errorf(broker.Invalid, "store_pooled",
			"cannot use PostgreSQL at %s:%d: a test notification did not arrive within %s, which means a connection pooler in transaction mode (give the address of PostgreSQL itself, or set the pooler to session mode)", e.config.Host, e.config.Port, probePatience)
	}
	return nil
}
