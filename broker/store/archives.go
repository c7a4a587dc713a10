package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

// Archive is what a task collected beside its result.
type Archive struct {
	TaskID, NodeID string
	CorrelationID  string // of the task: the run that asked for it, where one did
	EnqueuedBy     string
	Digest         string // sha256:… of Data
	Bytes          int64
	At             time.Time
	Data           []byte // only of one that is read whole
}

// archivesOfNode is how many are kept of one node: a node that fails again and again
// must not fill the store.
const archivesOfNode = 20

const archiveColumns = `a.task_id, a.node_id, t.correlation_id, t.enqueued_by, a.digest, a.bytes, a.at`

func archiveFields(a *Archive) []any {
	return []any{&a.TaskID, &a.NodeID, &a.CorrelationID, &a.EnqueuedBy, &a.Digest, &a.Bytes, at(&a.At)}
}

// putArchive keeps one with the end of its task, and of those of its node the newest.
func (t *tx) putArchive(ctx context.Context, taskID, nodeID string, data []byte) error {
	if _, err := t.ExecContext(ctx, `INSERT INTO task_archives (task_id, node_id, digest, bytes, at, data) VALUES ($1, $2, $3, $4, $5, $6)`,
		taskID, nodeID, pki.Digest(data), len(data), micros(t.now), data); err != nil {
		return err
	}
	_, err := t.ExecContext(ctx, `DELETE FROM task_archives WHERE node_id = $1 AND task_id NOT IN
		(SELECT task_id FROM task_archives WHERE node_id = $1 ORDER BY at DESC, task_id DESC LIMIT $2)`, nodeID, archivesOfNode)
	return err
}

// Archive reads the archive of a task whole, and only as it came: what does not fit its
// digest is refused. Codes: archive_not_found, archive_untrusted.
func (db *DB) Archive(ctx context.Context, taskID string) (a Archive, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT `+archiveColumns+`, a.data FROM task_archives a JOIN tasks t ON t.id = a.task_id WHERE a.task_id = $1`, taskID).
		Scan(append(archiveFields(&a), &a.Data)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return a, broker.Errorf(broker.NotFound, "archive_not_found", "task %s has no archive: it collected none, or its time is over", taskID)
	case err == nil && pki.Digest(a.Data) != a.Digest:
		return a, broker.Errorf(broker.Refused, "archive_untrusted", "cannot give out the archive of task %s: it is not that of its digest (the database may have been changed)", taskID)
	}
	return a, err
}

// Archives lists those of a node, the newest first, without what is in them.
func (db *DB) Archives(ctx context.Context, nodeID string) ([]Archive, error) {
	scan := func(row interface{ Scan(...any) error }) (a Archive, err error) {
		return a, row.Scan(archiveFields(&a)...)
	}
	return collect(ctx, db.reader(), scan, `SELECT `+archiveColumns+` FROM task_archives a JOIN tasks t ON t.id = a.task_id
		WHERE a.node_id = $1 ORDER BY a.at DESC, a.task_id DESC`, nodeID)
}

// DropArchives removes those from before, and says how many.
func (db *DB) DropArchives(ctx context.Context, before time.Time) (dropped int64, err error) {
	var due bool
	if err := db.reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM task_archives WHERE at < $1)`, micros(before)).Scan(&due); err != nil || !due {
		return 0, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		dropped, err = changed(t.ExecContext(ctx, `DELETE FROM task_archives WHERE at < $1`, micros(before)))
		return err
	})
	return dropped, err
}
