package store

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// NoteMaintenance adds a note. Codes: maintenance_not_found, maintenance_notes.
func (db *DB) NoteMaintenance(ctx context.Context, actor broker.Actor, id, text string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		m, n, err := t.lockMaintenance(ctx, id)
		if err != nil {
			return err
		}
		e := entry(actor, "maintenance.note", n.ID)
		var last int
		if err := t.QueryRowContext(ctx, `SELECT COALESCE(MAX(number), 0) FROM maintenance_notes WHERE maintenance_id = $1`, id).Scan(&last); err != nil {
			return err
		}
		if last >= broker.MaxMaintenanceNotes {
			return refuse(broker.Errorf(broker.Refused, "maintenance_notes", "cannot add a note to maintenance %s: it has %d (write in its ticket)",
				id, last), e)
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO maintenance_notes (maintenance_id, number, at, author, text) VALUES ($1, $2, $3, $4, $5)`,
			id, last+1, sqlkit.Micros(t.clock()), actor.Name, text); err != nil {
			return err
		}
		e.After = small("maintenance", m.ID, "number", last+1, "text", taskcatalog.Clean(text, 200))
		return t.audit(ctx, e)
	})
}

// MaintenanceNotes returns the notes of a maintenance, oldest first.
func (db *DB) MaintenanceNotes(ctx context.Context, id string) ([]broker.MaintenanceNote, error) {
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (n broker.MaintenanceNote, err error) {
		return n, row.Scan(&n.Number, sqlkit.ScanMicros(&n.At), &n.Author, &n.Text)
	}, `SELECT number, at, author, text FROM maintenance_notes WHERE maintenance_id = $1 ORDER BY number`, id)
}
