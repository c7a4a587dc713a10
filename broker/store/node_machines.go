package store

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// saveChassis keeps the serial number of a node's chassis beside its facts, for lists and look-ups.
func (t *tx) saveChassis(ctx context.Context, nodeID string, f taskcatalog.Facts, reportedAt time.Time) error {
	_, err := t.ExecContext(ctx, `INSERT INTO node_machines (node_id, serial, facts_at) VALUES ($1, $2, $3)
		ON CONFLICT (node_id) DO UPDATE SET serial = excluded.serial, facts_at = excluded.facts_at`,
		nodeID, strings.TrimSpace(f.ChassisSerial), sqlkit.Micros(reportedAt))
	return err
}

// forgetChassis forgets the serial number of a node whose machine may be another one now.
func (t *tx) forgetChassis(ctx context.Context, nodeID string) error {
	_, err := t.ExecContext(ctx, `UPDATE node_machines SET serial = '', facts_at = 0 WHERE node_id = $1`, nodeID)
	return err
}

// saveOnboarded keeps the address of a node's BMC and the MAC address of its PXE interface, as the
// run that made the node has them.
func (t *tx) saveOnboarded(ctx context.Context, nodeID, runID string) error {
	type onboarded struct {
		BMC    string `json:"ipmi_ip"`
		PXEMAC string `json:"pxe_mac"`
	}
	states, err := sqlkit.Collect(ctx, t, func(row sqlkit.Row) (s onboarded, err error) {
		return s, row.Scan(sqlkit.ScanJSON(&s))
	}, `SELECT state FROM chain_runs WHERE id = $1`, runID)
	if err != nil || len(states) == 0 {
		return err
	}
	mac := states[0].PXEMAC
	if parsed, err := net.ParseMAC(mac); err == nil {
		mac = parsed.String()
	}
	_, err = t.ExecContext(ctx, `INSERT INTO node_machines (node_id, bmc, pxe_mac) VALUES ($1, $2, $3)
		ON CONFLICT (node_id) DO UPDATE SET bmc = excluded.bmc, pxe_mac = excluded.pxe_mac`, nodeID, states[0].BMC, mac)
	return err
}

// machinesAtOnce bounds the nodes of one transaction of CatchUpMachines.
const machinesAtOnce = 100

// CatchUpMachines completes node_machines with what a broker of an earlier release stored: nodes
// that it made, and facts that it received. CatchUpMachines returns the number of nodes that it
// completed; it is done when that number is 0.
func (db *DB) CatchUpMachines(ctx context.Context) (nodes int, err error) {
	type late struct{ id, run string }
	const behind = ` FROM nodes n LEFT JOIN node_machines m ON m.node_id = n.id LEFT JOIN node_facts f ON f.node_id = n.id
		WHERE m.node_id IS NULL OR f.reported_at > m.facts_at LIMIT $1`
	// Outside a transaction first: SQLite has one writer, and usually nothing is behind.
	all, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (l late, err error) {
		return l, row.Scan(&l.id, &l.run)
	}, `SELECT n.id, n.made_by_run`+behind, machinesAtOnce)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return len(all), db.write(ctx, func(ctx context.Context, t *tx) error {
		for _, l := range all {
			if _, err := t.ExecContext(ctx, `INSERT INTO node_machines (node_id) VALUES ($1) ON CONFLICT (node_id) DO NOTHING`, l.id); err != nil {
				return err
			}
			if err := t.saveOnboarded(ctx, l.id, l.run); err != nil {
				return err
			}
			var at time.Time
			facts, err := sqlkit.Collect(ctx, t, func(row sqlkit.Row) (f taskcatalog.Facts, err error) {
				return f, row.Scan(sqlkit.ScanJSON(&f), sqlkit.ScanMicros(&at))
			}, `SELECT facts, reported_at FROM node_facts WHERE node_id = $1`, l.id)
			if err != nil {
				return err
			}
			for _, f := range facts {
				if err := t.saveChassis(ctx, l.id, f, at); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
