package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// maxClusters bounds the clusters on record: a list has them all.
const maxClusters = 1000

const clusterColumns = `name, backend, url, ca_cert, project_id, controller, join_auth, vault_path, generation, set_by, reason, set_at`

func scanCluster(row sqlkit.Row) (c broker.Cluster, err error) {
	err = row.Scan(&c.Name, &c.Backend, &c.URL, &c.CACert, &c.ProjectID, &c.Controller, &c.JoinAuth, &c.VaultPath, &c.Generation, &c.SetBy,
		&c.Reason, sqlkit.ScanMicros(&c.SetAt))
	return c, err
}

// Clusters lists the records, ordered by name.
func (db *DB) Clusters(ctx context.Context) ([]broker.Cluster, error) {
	return sqlkit.Collect(ctx, db.reader(), scanCluster, `SELECT `+clusterColumns+` FROM clusters ORDER BY name`)
}

// Cluster finds a record. Code: cluster_not_found.
func (db *DB) Cluster(ctx context.Context, name string) (broker.Cluster, error) {
	return cluster(ctx, db.reader(), name, "")
}

func cluster(ctx context.Context, r sqlkit.Runner, name, lock string) (broker.Cluster, error) {
	c, err := scanCluster(r.QueryRowContext(ctx, `SELECT `+clusterColumns+` FROM clusters WHERE name = $1`+lock, name))
	if errors.Is(err, sql.ErrNoRows) {
		return c, broker.Errorf(broker.NotFound, "cluster_not_found", "there is no cluster %q (see hostler cluster list)",
			taskcatalog.Clean(name, 64))
	}
	return c, err
}

// MemberNameTaken reports whether a node other than this one, which is not deleted, has this name in
// clusters: the first part of its host name, in lower case. Host names are unique in a site alone.
func (db *DB) MemberNameTaken(ctx context.Context, nodeID, name string) (taken bool, err error) {
	first := name + "."
	err = db.reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM nodes WHERE status <> 'deleted' AND id <> $1
		AND SUBSTR(LOWER(hostname) || '.', 1, $2) = $3)`, nodeID, len(first), first).Scan(&taken)
	return taken, err
}

// PutCluster stores the record of a cluster, audited, replacing the previous record; the caller stores
// the secrets at the record's path. Code: too_many_clusters.
func (db *DB) PutCluster(ctx context.Context, actor broker.Actor, c broker.Cluster) (kept broker.Cluster, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		e := broker.AuditEntry{Actor: actor.Name, Action: "cluster.set", Subject: "cluster/" + c.Name, Reason: c.Reason}
		had, err := cluster(ctx, t, c.Name, t.ForUpdate())
		switch {
		case err == nil:
			e.Before = clusterAudit(had)
		case broker.AsError(err).Kind != broker.NotFound:
			return err
		default:
			var n int
			if err := t.QueryRowContext(ctx, `SELECT count(*) FROM clusters`).Scan(&n); err != nil {
				return err
			}
			if n >= maxClusters {
				return broker.Errorf(broker.Refused, "too_many_clusters",
					"cannot store cluster %s: there are %d, as many as there may be (remove one: hostler help cluster remove)", c.Name, n)
			}
		}
		kept, err = scanCluster(t.QueryRowContext(ctx, `INSERT INTO clusters (`+clusterColumns+
			`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
			ON CONFLICT (name) DO UPDATE SET backend = excluded.backend, url = excluded.url, ca_cert = excluded.ca_cert,
			project_id = excluded.project_id, controller = excluded.controller, join_auth = excluded.join_auth, generation = excluded.generation,
			set_by = excluded.set_by, reason = excluded.reason, set_at = excluded.set_at
			RETURNING `+clusterColumns,
			c.Name, c.Backend, c.URL, c.CACert, c.ProjectID, c.Controller, c.JoinAuth, broker.ClusterPath(c.Name), c.Generation, actor.Name,
			c.Reason, sqlkit.Micros(t.now)))
		if err != nil {
			return err
		}
		e.After = clusterAudit(kept)
		return t.audit(ctx, e)
	})
	return kept, err
}

// RemoveCluster deletes a record, audited; the caller deletes the secrets. Code: cluster_not_found.
func (db *DB) RemoveCluster(ctx context.Context, actor broker.Actor, name, reason string) (had broker.Cluster, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if had, err = cluster(ctx, t, name, t.ForUpdate()); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM clusters WHERE name = $1`, name); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "cluster.remove", Subject: "cluster/" + name, Reason: reason, Before: clusterAudit(had),
		})
	})
	return had, err
}

func clusterAudit(c broker.Cluster) json.RawMessage {
	return small("backend", c.Backend, "url", c.URL, "project_id", c.ProjectID, "controller", c.Controller, "join_auth", c.JoinAuth)
}
