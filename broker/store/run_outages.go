package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// markOutage records the begin or the end of a node's outage because of a turnover, in the
// transaction that moves the node.
func (t *tx) markOutage(ctx context.Context, was, is broker.Node) error {
	switch {
	case is.Outside() && !was.Outside():
		_, err := t.ExecContext(ctx, `INSERT INTO turnover_outages (node_id, site, gpus, began_at)
			SELECT id, site, (SELECT COUNT(*) FROM node_devices d WHERE d.node_id = nodes.id AND kind = 'gpu' AND state IN ('expected', 'found', 'missing')), $1 FROM nodes WHERE id = $2
			ON CONFLICT (node_id) WHERE ended_at = 0 DO NOTHING`, sqlkit.Micros(t.now), is.ID)
		return err
	case was.Outside() && !is.Outside():
		_, err := t.ExecContext(ctx, `UPDATE turnover_outages SET ended_at = $1 WHERE node_id = $2 AND ended_at = 0`, sqlkit.Micros(t.now),
			is.ID)
		return err
	}
	return nil
}

// Outages returns the latest outages between two times at sites (nil: all), up to limit.
func (db *DB) Outages(ctx context.Context, sites []string, from, to time.Time, limit int) ([]broker.Outage, error) {
	var w sqlkit.Where
	w.Add("(ended_at = 0 OR ended_at > ?)", sqlkit.Micros(from))
	w.Add("began_at < ?", sqlkit.Micros(to))
	sqlkit.In(&w, "site", sites)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (o broker.Outage, err error) {
		err = row.Scan(&o.NodeID, &o.Site, &o.GPUs, sqlkit.ScanMicros(&o.BeganAt), sqlkit.ScanMicros(&o.EndedAt))
		return o, err
	}, `SELECT node_id, site, gpus, began_at, ended_at FROM turnover_outages`+w.String()+` ORDER BY began_at DESC, id DESC`+w.Limit(limit), w.Args...)
}

// StageTime is the time that runs of a kind spent in a stage.
type StageTime struct {
	Kind, Stage            string
	Runs, Attempts, Failed int64
	Total, Longest         time.Duration // of the attempts
}

// StageTimes sums up the attempts that ended between two times, in runs whose kind begins with
// prefix, at sites (nil: all). Runs that ended earlier are not read: with CROSS JOIN SQLite keeps
// the written join order.
func (db *DB) StageTimes(ctx context.Context, prefix string, sites []string, from, to time.Time) ([]StageTime, error) {
	var w sqlkit.Where
	w.Add("e.run_id = r.id AND e.status = 'started' AND e.direction = 'forward'")
	w.Add("o.run_id = e.run_id AND o.stage = e.stage AND o.direction = e.direction AND o.attempt = e.attempt AND o.status <> 'started'")
	w.Add("(r.completed_at = 0 OR r.completed_at >= ?)", sqlkit.Micros(from))
	w.Add("r.kind >= ?", prefix)
	w.Add("r.kind < ?", prefix+"~") // after all kinds with the prefix: kinds are plain words
	w.Add("o.at >= ?", sqlkit.Micros(from))
	w.Add("o.at < ?", sqlkit.Micros(to))
	sqlkit.In(&w, "r.site || ''", sites) // avoids the index of sites, which covers all runs that ever existed
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (s StageTime, err error) {
		var total, longest int64
		err = row.Scan(&s.Kind, &s.Stage, &s.Runs, &s.Attempts, &s.Failed, &total, &longest)
		s.Total, s.Longest = time.Duration(total)*time.Microsecond, time.Duration(longest)*time.Microsecond
		return s, err
	}, `SELECT r.kind, e.stage, COUNT(DISTINCT r.id), COUNT(*), SUM(CASE WHEN o.status = 'failed' THEN 1 ELSE 0 END), CAST(SUM(o.at - e.at) AS BIGINT), MAX(o.at - e.at)
		FROM chain_runs r CROSS JOIN chain_events e CROSS JOIN chain_events o`+
		w.String()+` GROUP BY r.kind, e.stage ORDER BY r.kind, MIN(e.id)`, w.Args...)
}

// NodeEvents returns up to limit events, in order, of a node's runs whose kind begins with prefix,
// between two times.
func (db *DB) NodeEvents(ctx context.Context, nodeID, prefix string, from, to time.Time, limit int) ([]chain.Event, error) {
	return sqlkit.Collect(ctx, db.reader(), scanEvent, `SELECT `+eventColumns+` FROM chain_events
		WHERE run_id IN (SELECT id FROM chain_runs WHERE id IN (SELECT run_id FROM node_runs WHERE node_id = $1) AND kind >= $2 AND kind < $3)
		AND at >= $4 AND at <= $5 ORDER BY id LIMIT $6`, nodeID, prefix, prefix+"~", sqlkit.Micros(from), sqlkit.Micros(to), limit)
}
