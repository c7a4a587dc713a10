package store

import "context"

// Lead runs f while this process leads: always on SQLite; on PostgreSQL while its connection holds
// the advisory lock. Every write made with f's context goes through that connection, so that the
// lock and the work end together. When the lock is lost, f's context ends; once f has returned,
// Lead tries to take the lock again. Lead returns when ctx ends.
func (db *DB) Lead(ctx context.Context, f func(ctx context.Context)) error {
	return db.engine.lead(ctx, f)
}
