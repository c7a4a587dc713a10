package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// NewNode is a node record to create. TokenHash and TokenExpires are its first enrol token; an
// empty hash creates no token.
type NewNode struct {
	ID, Hostname, Site, SKU string
	Bootstrap               string // cloud-init | command
	MAASSystemID            string
	MadeByRun               string // empty: a person made the node
	Labels                  map[string]string
	Place                   broker.NodePlace
	Disks                   []broker.Device // found by MAAS's commissioning; nil: not known
	TokenHash               string
	TokenExpires            time.Time
}

// NodeFilter selects nodes; an empty field adds no condition.
type NodeFilter struct {
	Sites    []string // nil: all
	Statuses []broker.NodeStatus
	// Availabilities are the words on record, as the last judgement left them.
	Availabilities []broker.Availability
	Hostname       string
	Labels         map[string]string
	MachineFilter
	Deleted bool   // deleted nodes too, if Statuses is empty
	After   string // cursor: the id of the last node of the previous page
	Limit   int    // 0: all
}

const nodeColumns = `id, hostname, site, sku, place_zone, place_room, place_row, place_rack, place_unit, place_domain, status, status_reason, turnover_owed, epoch, bootstrap, maas_system_id,
	labels, task_types, capabilities, agent_version, report_digest, trust_version, baseline_digest,
	resolver_wanted, resolver_want, resolver_digest, resolver_before,
	enrolled_at, identity_since, last_contact_at, cert_not_after, created_at, updated_at`

func scanNode(row sqlkit.Row) (broker.Node, error) {
	var n broker.Node
	err := row.Scan(&n.ID, &n.Hostname, &n.Site, &n.SKU,
		&n.Place.Zone, &n.Place.Room, &n.Place.Row, &n.Place.Rack, &n.Place.Unit, &n.Place.Domain,
		&n.Status, &n.StatusReason, &n.TurnoverOwed, &n.Epoch, &n.Bootstrap, &n.MAASSystemID,
		sqlkit.ScanJSON(&n.Labels), sqlkit.ScanJSON(&n.TaskTypes), sqlkit.ScanJSON(&n.Capabilities), &n.AgentVersion, &n.ReportDigest,
		&n.TrustVersion, &n.BaselineDigest,
		&n.ResolverWanted, &n.ResolverWant, &n.ResolverDigest, &n.ResolverBefore,
		sqlkit.ScanMicros(&n.EnrolledAt), sqlkit.ScanMicros(&n.IdentitySince), sqlkit.ScanMicros(&n.LastAgentContactAt),
		sqlkit.ScanMicros(&n.CertNotAfter), sqlkit.ScanMicros(&n.CreatedAt), sqlkit.ScanMicros(&n.UpdatedAt))
	return n, err
}

func nodeNotFound(ref string) *broker.Error {
	return broker.Errorf(broker.NotFound, "node_not_found", "there is no node %q (see hostler node list)", ref)
}

// node reads one node, with a lock clause of the dialect.
func node(ctx context.Context, r sqlkit.Runner, id, lock string) (broker.Node, error) {
	n, err := scanNode(r.QueryRowContext(ctx, `SELECT `+nodeColumns+` FROM nodes WHERE id = $1`+lock, id))
	if errors.Is(err, sql.ErrNoRows) {
		return n, nodeNotFound(id)
	}
	return n, err
}

// CreateNode creates a machine's record, status bootstrap_issued, with its enrol token. Codes:
// hostname_taken.
func (db *DB) CreateNode(ctx context.Context, actor broker.Actor, n NewNode) (made broker.Node, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		made, err = t.createNode(ctx, actor, n)
		return err
	})
	return made, err
}

func (t *tx) createNode(ctx context.Context, actor broker.Actor, n NewNode) (made broker.Node, err error) {
	var taken string
	err = t.QueryRowContext(ctx, `SELECT id FROM nodes WHERE site = $1 AND hostname = $2 AND status <> 'deleted'`, n.Site,
		n.Hostname).Scan(&taken)
	if err == nil {
		return made, broker.Errorf(broker.Refused, "hostname_taken",
			"cannot create node %s: node %s has that hostname (remove that node first, or choose another hostname)", n.Hostname, taken)
	} else if !errors.Is(err, sql.ErrNoRows) {
		return made, err
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	if _, err := t.ExecContext(ctx,
		`INSERT INTO nodes (id, hostname, site, sku, status, bootstrap, maas_system_id, made_by_run, labels, created_at, updated_at,
			place_zone, place_room, place_row, place_rack, place_unit, place_domain)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
		n.ID, n.Hostname, n.Site, n.SKU, string(broker.BootstrapIssued), n.Bootstrap, n.MAASSystemID, n.MadeByRun, sqlkit.JSON(n.Labels),
		sqlkit.Micros(t.now), sqlkit.Micros(t.now), n.Place.Zone, n.Place.Room, n.Place.Row, n.Place.Rack, n.Place.Unit,
		n.Place.Domain); err != nil {
		return made, err
	}
	if err := t.saveOnboarded(ctx, n.ID, n.MadeByRun); err != nil {
		return made, err
	}
	if made, err = node(ctx, t, n.ID, ""); err != nil {
		return made, err
	}
	if err := t.rewant(ctx, &made); err != nil {
		return made, err
	}
	if n.TokenHash != "" {
		if err := t.addToken(ctx, n.ID, n.TokenHash, n.TokenExpires); err != nil {
			return made, err
		}
	}
	if err := t.tellStatus(ctx, made, "", actor.Name, correlationOf(ctx)); err != nil {
		return made, err
	}
	e := entry(actor, "node.create", n.ID)
	e.After = small("hostname", n.Hostname, "site", n.Site, "sku", n.SKU, "bootstrap", n.Bootstrap, "place", n.Place)
	return made, t.audit(ctx, e)
}

// Node reads a node by its id. Codes: node_not_found.
func (db *DB) Node(ctx context.Context, id string) (broker.Node, error) {
	return node(ctx, db.reader(), id, "")
}

// FindNode resolves a person's reference: an id, a unique id prefix, a hostname, or site/hostname,
// among the nodes of sites (nil: all). A deleted node is found by its whole id only. Codes:
// node_not_found, ambiguous_node.
func (db *DB) FindNode(ctx context.Context, ref string, sites []string) (broker.Node, error) {
	var w sqlkit.Where
	site, hostname, qualified := strings.Cut(ref, "/")
	switch {
	case ref == "":
		return broker.Node{}, nodeNotFound(ref)
	case qualified:
		w.Add("site = ? AND hostname = ? AND status <> 'deleted'", site, hostname)
	default:
		// A range instead of LIKE: the reference is not a pattern.
		w.Add("(id = ? OR status <> 'deleted' AND hostname = ? OR status <> 'deleted' AND id >= ? AND id < ?)", ref, ref, ref, ref+"\x7f")
	}
	sqlkit.In(&w, "site", sites)
	found, err := sqlkit.Collect(ctx, db.reader(), scanNode,
		`SELECT `+nodeColumns+` FROM nodes`+w.String()+` ORDER BY id`+w.Limit(maxCandidates+1), w.Args...)
	if err != nil {
		return broker.Node{}, err
	}
	for _, n := range found {
		if n.ID == ref {
			return n, nil
		}
	}
	switch len(found) {
	case 0:
		return broker.Node{}, nodeNotFound(ref)
	case 1:
		return found[0], nil
	}
	var names []string
	for _, n := range found[:min(len(found), maxCandidates)] {
		names = append(names, n.ID+" ("+strings.TrimPrefix(n.Site+"/"+n.Hostname, "/")+")")
	}
	if len(found) > maxCandidates {
		names = append(names, "…")
	}
	return broker.Node{}, broker.Errorf(broker.Refused, "ambiguous_node", "%q matches several nodes: %s (use an id)", ref,
		strings.Join(names, ", "))
}

const maxCandidates = 10

// NameTaken reports whether the reference matches the hostname, or the beginning of the id, of a
// node outside the given sites.
func (db *DB) NameTaken(ctx context.Context, ref string, sites []string) (taken bool, err error) {
	var w sqlkit.Where
	w.Add("status <> 'deleted' AND (hostname = ? OR id >= ? AND id < ?)", ref, ref, ref+"\x7f")
	for _, site := range sites {
		w.Add("site <> ?", site)
	}
	err = db.reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM nodes`+w.String()+`)`, w.Args...).Scan(&taken)
	return taken, err
}

// ListNodes returns a page ordered by id, and the cursor of the next page ("" at the end). A page of
// nodes with labels looks at LabelledAtOnce nodes, and may come back short.
func (db *DB) ListNodes(ctx context.Context, f NodeFilter) (page []broker.Node, next string, err error) {
	var w sqlkit.Where
	sqlkit.In(&w, "site", f.Sites)
	sqlkit.In(&w, "status", f.Statuses)
	db.inAvailability(&w, f.Availabilities)
	w.Equal("hostname", f.Hostname)
	f.MachineFilter.add(&w)
	if !f.Deleted && len(f.Statuses) == 0 {
		w.Add("status <> 'deleted'")
	}
	if f.After != "" {
		w.Add("id > ?", f.After)
	}
	return labelled[broker.Node]{
		scan: scanNode, id: func(n broker.Node) string { return n.ID },
		labelsOf: func(n broker.Node) map[string]string { return n.Labels }, want: f.Labels, limit: f.Limit,
	}.page(ctx, db, `SELECT `+nodeColumns+` FROM nodes`+w.String()+` ORDER BY id`, &w)
}

// CountNodes counts nodes by status.
func (db *DB) CountNodes(ctx context.Context) (map[broker.NodeStatus]int, error) {
	return sqlkit.Count[broker.NodeStatus](ctx, db.reader(), `SELECT status, COUNT(*) FROM nodes GROUP BY status`)
}

// SetLabels merges labels into the node's labels; an empty value removes a label.
func (db *DB) SetLabels(ctx context.Context, actor broker.Actor, nodeID string, labels map[string]string) (n broker.Node, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if n, err = node(ctx, t, nodeID, t.ForUpdate()); err != nil {
			return err
		}
		before := sqlkit.JSON(n.Labels)
		for k, v := range labels {
			if v == "" {
				delete(n.Labels, k)
			} else {
				n.Labels[k] = v
			}
		}
		after := sqlkit.JSON(n.Labels)
		if before == after {
			return nil
		}
		n.UpdatedAt = t.now
		if _, err := t.ExecContext(ctx, `UPDATE nodes SET labels = $1, updated_at = $2 WHERE id = $3`, after, sqlkit.Micros(t.now),
			nodeID); err != nil {
			return err
		}
		if err := t.rewant(ctx, &n); err != nil {
			return err
		}
		e := entry(actor, "node.label", nodeID)
		e.Before, e.After = []byte(before), []byte(after)
		return t.audit(ctx, e)
	})
	return n, err
}

// TrustStragglers lists the enrolled nodes, not deleted, that have not confirmed a bundle of at
// least this version.
func (db *DB) TrustStragglers(ctx context.Context, version int64) ([]broker.Node, error) {
	return sqlkit.Collect(ctx, db.reader(), scanNode, `SELECT `+nodeColumns+` FROM nodes
		WHERE status <> 'deleted' AND epoch > 0 AND trust_version < $1 ORDER BY id`, version)
}

// TrustRefusal is a node's last failure to take the trust bundle: code and message of the failed
// task.
type TrustRefusal struct {
	NodeID, Code, Message string
	At                    time.Time
}

// TrustRefusals lists the nodes below a bundle version whose last node.trust_update failed. A node
// that never received the task is not listed.
func (db *DB) TrustRefusals(ctx context.Context, version int64) ([]TrustRefusal, error) {
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (r TrustRefusal, err error) {
		return r, row.Scan(&r.NodeID, &r.Code, &r.Message, sqlkit.ScanMicros(&r.At))
	}, `SELECT n.id, t.code, t.message, t.ended_at FROM nodes n JOIN tasks t ON t.id =
			(SELECT max(l.id) FROM tasks l WHERE l.node_id = n.id AND l.type = 'node.trust_update' AND l.attempt > 0 AND l.ended_at > 0)
		WHERE n.status <> 'deleted' AND n.epoch > 0 AND n.trust_version < $1 AND t.status = 'failed' ORDER BY n.id`, version)
}

// sortedKeys serves statements that must lock rows in one order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cmp.Compare)
	return keys
}
