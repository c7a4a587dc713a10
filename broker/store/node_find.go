package store

import (
	"context"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// FindAtOnce bounds what a word finds of one kind by one property.
const FindAtOnce = 100

// lookup is a query for one kind of thing by one property.
type lookup struct {
	kind  broker.FoundKind
	by    string
	where string
	args  []string // one for each ?; if one is empty, the word cannot be this property
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
	hostname := lookup{broker.FoundNode, "hostname", "n.hostname = ?", []string{w.Hostname}}
	if w.Site != "" {
		hostname.where, hostname.args = "n.hostname = ? AND n.site = ?", []string{w.Hostname, w.Site}
	}
	project := lookup{broker.FoundProject, "name", "x.name = ?", []string{w.Lower}}
	if organisation, name, qualified := strings.Cut(w.Lower, "/"); qualified {
		project.where = "x.name = ? AND x.organisation_id IN (SELECT id FROM organisations WHERE name = ?)"
		project.args = []string{name, organisation}
	}
	const machine = "n.id IN (SELECT node_id FROM node_machines WHERE "
	one := func(kind broker.FoundKind, by, where, arg string) lookup {
		return lookup{kind, by, where, []string{arg}}
	}
	return []lookup{
		one(broker.FoundNode, "id", "n.id = ?", w.Text),
		hostname,
		one(broker.FoundNode, "maas_system_id", "n.maas_system_id = ?", w.Text),
		one(broker.FoundNode, "serial", machine+"LOWER(serial) = ?)", w.Lower),
		one(broker.FoundNode, "pxe_mac", machine+"pxe_mac = ?)", w.MAC),
		one(broker.FoundNode, "ipmi_ip", machine+"bmc = ?)", w.IP),
		one(broker.FoundNode, "host", "n.id IN (SELECT node_id FROM node_maas_state WHERE host = ?)", w.IP),
		one(broker.FoundNode, "maas_ip", "n.id IN (SELECT node_id FROM node_maas_state WHERE last_maas_ips LIKE ?)", ip),
		one(broker.FoundDevice, "id", "LOWER(x.id) = ?", w.Lower),
		one(broker.FoundDevice, "uuid", "LOWER(x.id) = ?", w.UUID),
		one(broker.FoundDevice, "uuid", "LOWER(x.id) = ?", gpu),
		one(broker.FoundDevice, "serial", "LOWER(x.serial) = ?", w.Lower),
		one(broker.FoundAllocation, "id", "x.allocation_id = ?", w.Text),
		one(broker.FoundProjectAllocation, "id", "x.id = ?", w.Text),
		one(broker.FoundRun, "id", "x.id = ?", w.Text),
		one(broker.FoundTask, "id", "x.id = ?", w.Text),
		one(broker.FoundCertificate, "id", "x.id = ?", w.Text),
		one(broker.FoundNodeCertificate, "serial", "x.serial = ?", w.Serial),
		one(broker.FoundAttestation, "id", "x.id = ?", w.Text),
		one(broker.FoundTerminal, "id", "x.id = ?", w.Text),
		one(broker.FoundOrganisation, "id", "x.id = ?", w.Text),
		one(broker.FoundOrganisation, "name", "x.name = ?", w.Lower),
		one(broker.FoundProject, "id", "x.id = ?", w.Text),
		project,
		one(broker.FoundReservation, "id", "x.id = ?", w.Text),
		one(broker.FoundWebhook, "id", "x.id = ?", w.Text),
	}
}

// findable is how one kind of thing is read.
type findable struct {
	columns string // of the thing: id, what and status
	from    string // n is the node
	site    string // the column of the site; empty: the kind is of no site
	anySite bool   // a thing may be of all sites
}

// withoutNode stands for the node in a query for things that have none.
const withoutNode = ` LEFT JOIN nodes n ON n.id = NULL`

var findables = map[broker.FoundKind]findable{
	broker.FoundNode:   {columns: `n.id, n.sku, n.status`, from: `nodes n`, site: "n.site"},
	broker.FoundDevice: {columns: `x.id, x.model, x.state`, from: `node_devices x JOIN nodes n ON n.id = x.node_id`, site: "n.site"},
	broker.FoundAllocation: {
		columns: `x.allocation_id, x.tenant, CASE WHEN x.ended_at = 0 THEN 'live' ELSE 'ended' END`,
		from:    `allocations x JOIN nodes n ON n.id = x.node_id`, site: "n.site",
	},
	broker.FoundProjectAllocation: {columns: `x.id, x.project_id, x.status`, from: `tenant_allocations x` + withoutNode, site: "x.site"},
	broker.FoundRun: {
		columns: `x.id, x.kind, x.status`,
		from:    `chain_runs x LEFT JOIN node_runs r ON r.run_id = x.id LEFT JOIN nodes n ON n.id = r.node_id`, site: "x.site",
	},
	broker.FoundTask: {columns: `x.id, x.type, x.status`, from: `tasks x JOIN nodes n ON n.id = x.node_id`, site: "n.site"},
	broker.FoundCertificate: {
		columns: `x.id, x.mode, CASE WHEN x.meets_policy THEN 'meets_policy' ELSE 'falls_short' END`,
		from:    `clean_certificates x LEFT JOIN nodes n ON n.id = x.node_id`, site: "x.site",
	},
	broker.FoundNodeCertificate: {
		columns: `x.serial, 'epoch ' || x.epoch, CASE WHEN x.denied_at > 0 THEN 'denied' ELSE 'issued' END`,
		from:    `certificates x JOIN nodes n ON n.id = x.node_id`, site: "n.site",
	},
	broker.FoundAttestation: {
		columns: `x.id, x.device_id, CASE WHEN x.certified_by = '' THEN 'kept' ELSE 'certified' END`,
		from:    `attestations x JOIN nodes n ON n.id = x.node_id`, site: "x.site",
	},
	broker.FoundTerminal: {columns: `x.id, x.username, x.status`, from: `terminal_sessions x JOIN nodes n ON n.id = x.node_id`, site: "x.site"},
	broker.FoundOrganisation: {
		columns: `x.id, x.name, CASE WHEN x.ended_at = 0 THEN 'live' ELSE 'ended' END`, from: `organisations x` + withoutNode,
	},
	broker.FoundProject: {
		columns: `x.id, o.name || '/' || x.name, CASE WHEN x.ended_at = 0 THEN 'live' ELSE 'ended' END`,
		from:    `projects x JOIN organisations o ON o.id = x.organisation_id` + withoutNode,
	},
	broker.FoundReservation: {
		columns: `x.id, x.project_id, CASE WHEN x.ended_at > 0 THEN 'ended' WHEN x.to_at <= $1 THEN 'over'
			WHEN x.from_at <= $1 THEN 'in_force' ELSE 'planned' END`,
		from: `reservations x` + withoutNode, site: "x.site", anySite: true,
	},
	broker.FoundWebhook: {
		columns: `x.id, x.project_id, CASE WHEN x.disabled_at > 0 THEN 'disabled' WHEN x.code <> '' THEN 'failing' ELSE 'active' END`,
		from:    `webhooks x` + withoutNode,
	},
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
		if slices.Contains(l.args, "") {
			continue
		}
		all, err := db.findBy(ctx, l, sites)
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

// findBy returns what a lookup finds, and one thing too many if there are more than FindAtOnce.
func (db *DB) findBy(ctx context.Context, l lookup, sites []string) ([]broker.Found, error) {
	of := findables[l.kind]
	var w sqlkit.Where
	if l.kind == broker.FoundReservation {
		w.Args = []any{sqlkit.Micros(db.Now())} // $1 of the columns
	}
	args := make([]any, len(l.args))
	for i, a := range l.args {
		args[i] = a
	}
	w.Add(l.where, args...)
	site := of.site
	switch {
	case site == "":
		site = "''"
	case of.anySite && len(sites) > 0:
		sqlkit.In(&w, site, append([]string{""}, sites...))
	default:
		sqlkit.In(&w, site, sites)
	}
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (broker.Found, error) {
		f := broker.Found{Kind: l.kind, By: l.by}
		return f, row.Scan(&f.NodeID, &f.Hostname, &f.ID, &f.What, &f.Status, &f.Site)
	}, `SELECT COALESCE(n.id, ''), COALESCE(n.hostname, ''), `+of.columns+`, `+site+` FROM `+of.from+w.String()+
		` ORDER BY 1, 3`+w.Limit(FindAtOnce+1), w.Args...)
}
