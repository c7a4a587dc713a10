package store

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// FindAtOnce bounds what a word finds of one kind by one property.
const FindAtOnce = 100

// lookup is a query for one kind of thing by one property. The condition has one placeholder.
type lookup struct {
	kind  broker.FoundKind
	by    string
	where string
	arg   string // empty: the word cannot be this property
}

// lookups lists the queries of a word. Each of them uses an index, except for the addresses that
// MAAS reported, which are a small column of few rows.
func lookups(w broker.Word) []lookup {
	gpu, ip := "", ""
	if w.UUID != "" {
		gpu = "gpu-" + w.UUID
	}
	if w.IP != "" {
		ip = `%"` + w.IP + `"%`
	}
	hostname := "n.hostname = ?"
	if w.Site != "" {
		hostname = "n.site || '/' || n.hostname = ?"
		w.Hostname = w.Site + "/" + w.Hostname
	}
	const machine = "n.id IN (SELECT node_id FROM node_machines WHERE "
	return []lookup{
		{broker.FoundNode, "id", "n.id = ?", w.Text},
		{broker.FoundNode, "hostname", hostname, w.Hostname},
		{broker.FoundNode, "maas_system_id", "n.maas_system_id = ?", w.Text},
		{broker.FoundNode, "serial", machine + "LOWER(serial) = ?)", w.Lower},
		{broker.FoundNode, "pxe_mac", machine + "pxe_mac = ?)", w.MAC},
		{broker.FoundNode, "ipmi_ip", machine + "bmc = ?)", w.IP},
		{broker.FoundNode, "host", "n.id IN (SELECT node_id FROM node_maas_state WHERE host = ?)", w.IP},
		{broker.FoundNode, "maas_ip", "n.id IN (SELECT node_id FROM node_maas_state WHERE last_maas_ips LIKE ?)", ip},
		{broker.FoundDevice, "id", "LOWER(x.id) = ?", w.Lower},
		{broker.FoundDevice, "uuid", "LOWER(x.id) = ?", w.UUID},
		{broker.FoundDevice, "uuid", "LOWER(x.id) = ?", gpu},
		{broker.FoundDevice, "serial", "LOWER(x.serial) = ?", w.Lower},
		{broker.FoundAllocation, "id", "x.allocation_id = ?", w.Text},
		{broker.FoundRun, "id", "x.id = ?", w.Text},
		{broker.FoundTask, "id", "x.id = ?", w.Text},
		{broker.FoundCertificate, "id", "x.id = ?", w.Text},
		{broker.FoundNodeCertificate, "serial", "x.serial = ?", w.Serial},
	}
}

// findable has, for each kind, the columns id, what and status, and the tables. n is the node.
var findable = map[broker.FoundKind]string{
	broker.FoundNode:       `n.id, n.sku, n.status, n.site FROM nodes n`,
	broker.FoundDevice:     `x.id, x.model, x.state, n.site FROM node_devices x JOIN nodes n ON n.id = x.node_id`,
	broker.FoundAllocation: `x.allocation_id, x.tenant, CASE WHEN x.ended_at = 0 THEN 'live' ELSE 'ended' END, n.site FROM allocations x JOIN nodes n ON n.id = x.node_id`,
	broker.FoundRun:        `x.id, x.kind, x.status, x.site FROM chain_runs x LEFT JOIN node_runs r ON r.run_id = x.id LEFT JOIN nodes n ON n.id = r.node_id`,
	broker.FoundTask:       `x.id, x.type, x.status, n.site FROM tasks x JOIN nodes n ON n.id = x.node_id`,
	broker.FoundCertificate: `x.id, x.mode, CASE WHEN x.meets_policy THEN 'meets_policy' ELSE 'falls_short' END, x.site
		FROM clean_certificates x LEFT JOIN nodes n ON n.id = x.node_id`,
	broker.FoundNodeCertificate: `x.serial, 'epoch ' || x.epoch, CASE WHEN x.denied_at > 0 THEN 'denied' ELSE 'issued' END, n.site
		FROM certificates x JOIN nodes n ON n.id = x.node_id`,
}

// Find returns what a word names among sites (nil: all), deleted nodes too, each thing once. A word
// matches as a whole. more: something was left out, because one property matched more than
// FindAtOnce things.
func (db *DB) Find(ctx context.Context, word broker.Word, sites []string) (found []broker.Found, more bool, err error) {
	type thing struct {
		kind       broker.FoundKind
		id, nodeID string
	}
	had := map[thing]bool{}
	for _, l := range lookups(word) {
		if l.arg == "" {
			continue
		}
		var w sqlkit.Where
		w.Add(l.where, l.arg)
		site := "n.site"
		if l.kind == broker.FoundRun || l.kind == broker.FoundCertificate {
			site = "x.site"
		}
		sqlkit.In(&w, site, sites)
		all, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (broker.Found, error) {
			f := broker.Found{Kind: l.kind, By: l.by}
			return f, row.Scan(&f.NodeID, &f.Hostname, &f.ID, &f.What, &f.Status, &f.Site)
		}, `SELECT COALESCE(n.id, ''), COALESCE(n.hostname, ''), `+findable[l.kind]+w.String()+` ORDER BY 1, 3`+w.Limit(FindAtOnce+1), w.Args...)
		if err != nil {
			return nil, false, err
		}
		if len(all) > FindAtOnce {
			all, more = all[:FindAtOnce], true
		}
		for _, f := range all {
			if k := (thing{f.Kind, f.ID, f.NodeID}); !had[k] {
				had[k] = true
				found = append(found, f)
			}
		}
	}
	return found, more, nil
}
