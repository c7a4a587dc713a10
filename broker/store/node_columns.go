package store

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// MachineFilter selects nodes by what their records say elsewhere; an empty field adds no
// condition.
type MachineFilter struct {
	SKU          string
	Serial       string // of the chassis, in any case
	Tenant       string // has a user on the node
	UpdatedSince time.Time
}

func (f MachineFilter) add(w *sqlkit.Where) {
	w.Equal("sku", f.SKU)
	if f.Serial != "" {
		w.Add("id IN (SELECT node_id FROM node_machines WHERE LOWER(serial) = ?)", strings.ToLower(f.Serial))
	}
	if f.Tenant != "" {
		w.Add("id IN (SELECT node_id FROM allocations WHERE tenant = ? AND "+isLive+")", f.Tenant)
	}
	if !f.UpdatedSince.IsZero() {
		w.Add("updated_at >= ?", sqlkit.Micros(f.UpdatedSince))
	}
}

// isLive selects the allocations whose user may be on the node. The words certified_by = ” AND
// ended_at = 0 are those of the index allocations_live.
const isLive = `certified_by = '' AND ended_at = 0 AND` + occupantWas

// NodeColumns is what a list shows of a node besides its record. A text is empty where it is not
// known.
type NodeColumns struct {
	Serial       string // of the chassis
	Host         string // the node's own address
	BMC          string // the BMC's address
	PXEMAC       string
	SiteID       string
	Region       string
	AllocationID string // the newest allocation that is live
	Tenant       string // of that allocation
	Image        string // that MAAS installed for the present enrolment
}

// ColumnsOf returns the columns of nodes by the nodes' ids.
func (db *DB) ColumnsOf(ctx context.Context, ids []string) (map[string]NodeColumns, error) {
	out := make(map[string]NodeColumns, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	const newest = ` FROM allocations WHERE node_id = n.id AND ` + isLive + ` ORDER BY since DESC, allocation_id LIMIT 1), '')`
	var w sqlkit.Where
	sqlkit.In(&w, "n.id", ids)
	_, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (_ struct{}, err error) {
		var id string
		var c NodeColumns
		err = row.Scan(&id, &c.Serial, &c.BMC, &c.PXEMAC, &c.Host, &c.SiteID, &c.Region, &c.AllocationID, &c.Tenant, &c.Image)
		out[id] = c
		return struct{}{}, err
	}, `SELECT n.id, COALESCE(m.serial, ''), COALESCE(m.bmc, ''), COALESCE(m.pxe_mac, ''), COALESCE(s.host, ''),
			COALESCE(p.id, ''), COALESCE(p.region_code, ''),
			COALESCE((SELECT allocation_id`+newest+`, COALESCE((SELECT tenant`+newest+`, COALESCE(i.image, '')
		FROM nodes n LEFT JOIN node_machines m ON m.node_id = n.id LEFT JOIN node_maas_state s ON s.node_id = n.id
			LEFT JOIN node_images i ON i.node_id = n.id AND i.epoch = n.epoch
			LEFT JOIN maas_sites p ON p.name = n.site`+w.String(), w.Args...)
	return out, err
}
