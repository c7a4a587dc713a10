package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/pki"
)

// Archive is a file that a task collected beside its result.
type Archive struct {
	TaskID, NodeID string
	CorrelationID  string // of the task: the id of the run that asked for the task, if any
	EnqueuedBy     string
	Digest         string // sha256:… of Data
	Bytes          int64
	At             time.Time
	Data           []byte // set by DB.Archive only
}

// archivesOfNode is how many archives are kept per node: a node that fails again and again must not
// fill the store.
const archivesOfNode = 20

const archiveColumns = `a.task_id, a.node_id, t.correlation_id, t.enqueued_by, a.digest, a.bytes, a.at`

func archiveFields(a *Archive) []any {
	return []any{&a.TaskID, &a.NodeID, &a.CorrelationID, &a.EnqueuedBy, &a.Digest, &a.Bytes, sqlkit.ScanMicros(&a.At)}
}

// putArchive stores an archive at the end of its task, and deletes the node's oldest archives.
func (t *tx) putArchive(ctx context.Context, taskID, nodeID string, data []byte) error {
	if _, err := t.ExecContext(ctx, `INSERT INTO task_archives (task_id, node_id, digest, bytes, at, data) VALUES ($1, $2, $3, $4, $5, $6)`,
		taskID, nodeID, pki.Digest(data), len(data), sqlkit.Micros(t.now), data); err != nil {
		return err
	}
	_, err := t.ExecContext(ctx, `DELETE FROM task_archives WHERE node_id = $1 AND task_id NOT IN
		(SELECT task_id FROM task_archives WHERE node_id = $1 ORDER BY at DESC, task_id DESC LIMIT $2)`, nodeID, archivesOfNode)
	return err
}

// Archive reads the archive of a task, with data. Data that does not match its digest is refused.
// Codes: archive_not_found, archive_untrusted.
func (db *DB) Archive(ctx context.Context, taskID string) (a Archive, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT `+archiveColumns+
		`, a.data FROM task_archives a JOIN tasks t ON t.id = a.task_id WHERE a.task_id = $1`, taskID).
		Scan(append(archiveFields(&a), &a.Data)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return a, broker.Errorf(broker.NotFound, "archive_not_found",
			"task %s has no archive: the task collected none, or the archive has been deleted", taskID)
	case err == nil && pki.Digest(a.Data) != a.Digest:
		return a, broker.Errorf(broker.Refused, "archive_untrusted",
			"cannot return the archive of task %s: its content does not match its digest (the database may have been changed)", taskID)
	}
	return a, err
}

// Archives lists a node's archives, newest first, without data.
func (db *DB) Archives(ctx context.Context, nodeID string) ([]Archive, error) {
	scan := func(row sqlkit.Row) (a Archive, err error) {
		return a, row.Scan(archiveFields(&a)...)
	}
	return sqlkit.Collect(ctx, db.reader(), scan, `SELECT `+archiveColumns+` FROM task_archives a JOIN tasks t ON t.id = a.task_id
		WHERE a.node_id = $1 ORDER BY a.at DESC, a.task_id DESC`, nodeID)
}

// DropArchives deletes archives older than before, and returns their number.
func (db *DB) DropArchives(ctx context.Context, before time.Time) (dropped int64, err error) {
	var due bool
	if err := db.reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM task_archives WHERE at < $1)`,
		sqlkit.Micros(before)).Scan(&due); err != nil || !due {
		return 0, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		dropped, err = sqlkit.Changed(t.ExecContext(ctx, `DELETE FROM task_archives WHERE at < $1`, sqlkit.Micros(before)))
		return err
	})
	return dropped, err
}
