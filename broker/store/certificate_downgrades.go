package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// AcceptedDowngrade is an operator's decision, in one turnover, to accept a disk on which a weaker
// erase was done than asked.
type AcceptedDowngrade struct {
	RunID, NodeID, CertificateID string
	Device, Asked, Did           string
	By, Reason                   string
	At                           time.Time
}

const acceptedColumns = `run_id, node_id, certificate_id, device, asked, did, accepted_by, reason, accepted_at`

func scanAccepted(row sqlkit.Row) (a AcceptedDowngrade, err error) {
	err = row.Scan(&a.RunID, &a.NodeID, &a.CertificateID, &a.Device, &a.Asked, &a.Did, &a.By, &a.Reason, sqlkit.ScanMicros(&a.At))
	return a, err
}

// AcceptDowngrade stores an operator's decision, audited, for a run that has not ended. The first
// decision stands, and is returned. Code: run_ended.
func (db *DB) AcceptDowngrade(ctx context.Context, actor broker.Actor, a AcceptedDowngrade) (kept AcceptedDowngrade, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		var status string
		err := t.QueryRowContext(ctx, `SELECT status FROM chain_runs WHERE id = $1`+t.ForUpdate(), a.RunID).Scan(&status)
		switch {
		case errors.Is(err, sql.ErrNoRows) || err == nil && chain.Status(status).Ended():
			return broker.Errorf(broker.Refused, "run_ended",
				"cannot accept a downgrade in run %s: the run has ended and issues no further certificate (start another turnover)",
				taskcatalog.Clean(a.RunID, 64))
		case err != nil:
			return err
		}
		first, err := sqlkit.Changed(t.ExecContext(ctx, `INSERT INTO accepted_downgrades (`+acceptedColumns+
			`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`,
			a.RunID, a.NodeID, a.CertificateID, a.Device, a.Asked, a.Did, actor.Name, a.Reason, sqlkit.Micros(t.now)))
		if err != nil {
			return err
		}
		if kept, err = scanAccepted(t.QueryRowContext(ctx,
			`SELECT `+acceptedColumns+` FROM accepted_downgrades WHERE run_id = $1 AND device = $2 AND asked = $3 AND did = $4`, a.RunID,
			a.Device, a.Asked, a.Did)); err != nil || first == 0 {
			return err
		}
		e := entry(actor, "certificate.accept_downgrade", a.NodeID)
		e.Reason, e.After = a.Reason, small("run", a.RunID, "seen", a.CertificateID, "device", "disk "+a.Device,
			"said", fmt.Sprintf("accepted with %s, where %s was asked for", a.Did, a.Asked))
		return t.audit(ctx, e)
	})
	return kept, err
}

// AcceptedDowngrades returns a run's accepted downgrades, oldest first.
func (db *DB) AcceptedDowngrades(ctx context.Context, runID string) ([]AcceptedDowngrade, error) {
	return sqlkit.Collect(ctx, db.reader(), scanAccepted,
		`SELECT `+acceptedColumns+` FROM accepted_downgrades WHERE run_id = $1 ORDER BY accepted_at, device, did`, runID)
}
