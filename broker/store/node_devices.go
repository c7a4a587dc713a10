package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

const deviceColumns = `kind, id, serial, model, place, size, state, source, since, reason, role, transport`

func scanDevice(row sqlkit.Row) (d broker.Device, err error) {
	err = row.Scan(&d.Kind, &d.ID, &d.Serial, &d.Model, &d.Place, &d.Size, &d.State, &d.Source, sqlkit.ScanMicros(&d.Since), &d.Reason,
		&d.Role, &d.Transport)
	return d, err
}

func devices(ctx context.Context, r sqlkit.Runner, nodeID string) ([]broker.Device, error) {
	return sqlkit.Collect(ctx, r, scanDevice, `SELECT `+deviceColumns+` FROM node_devices WHERE node_id = $1 ORDER BY kind, place, id`,
		nodeID)
}

// Devices returns the recorded parts of a node's machine.
func (db *DB) Devices(ctx context.Context, nodeID string) ([]broker.Device, error) {
	return devices(ctx, db.reader(), nodeID)
}

// putDevices replaces a node's recorded parts, and audits the change.
func (t *tx) putDevices(ctx context.Context, actor broker.Actor, nodeID, reason string, before, after []broker.Device) error {
	if slices.Equal(before, after) {
		return nil
	}
	t.hint(HintNode, nodeID)
	if _, err := t.ExecContext(ctx, `DELETE FROM node_devices WHERE node_id = $1`, nodeID); err != nil {
		return err
	}
	for _, d := range after {
		if _, err := t.ExecContext(ctx, `INSERT INTO node_devices (node_id, `+deviceColumns+
			`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
			nodeID, string(d.Kind), d.ID, d.Serial, d.Model, d.Place, d.Size, string(d.State), d.Source, sqlkit.Micros(d.Since), d.Reason,
			string(d.Role), d.Transport); err != nil {
			return err
		}
	}
	e := entry(actor, "node.devices", nodeID)
	e.Reason, e.Before, e.After = reason, stands(before), stands(after)
	if string(e.Before) == string(e.After) {
		return nil // a name, an address or a size has changed
	}
	return t.audit(ctx, e)
}

// stands lists parts by state, and the disks that an erase leaves out, for the audit log.
func stands(all []broker.Device) []byte {
	by := map[string][]string{}
	for _, d := range all {
		by[string(d.State)] = append(by[string(d.State)], string(d.Kind)+" "+d.ID)
		if d.Role == broker.RoleSystem {
			by["system"] = append(by["system"], d.ID)
		}
		if broker.Networked(d.Transport) {
			by["network"] = append(by["network"], d.ID)
		}
	}
	return []byte(sqlkit.JSON(by))
}

// expectDisks records the disks found by MAAS's commissioning, until the node's own agent has come.
func (t *tx) expectDisks(ctx context.Context, actor broker.Actor, n broker.Node, disks []broker.Device) error {
	if n.Epoch > 0 || disks == nil {
		return nil
	}
	before, err := devices(ctx, t, n.ID)
	if err != nil {
		return err
	}
	var after []broker.Device
	for _, d := range disks {
		i := slices.IndexFunc(before, func(b broker.Device) bool { return b.Kind == broker.DeviceDisk && b.ID == d.ID })
		twice := slices.ContainsFunc(after, func(a broker.Device) bool { return a.ID == d.ID })
		switch {
		case d.ID == "" || twice:
		case i >= 0:
			after = append(after, before[i])
		default:
			d.Kind, d.State, d.Source, d.Since = broker.DeviceDisk, broker.DeviceExpected, "maas", t.now
			after = append(after, d)
		}
	}
	slices.SortFunc(after, func(a, b broker.Device) int { return strings.Compare(a.Place+a.ID, b.Place+b.ID) })
	return t.putDevices(ctx, actor, n.ID, "commissioned by MAAS", before, after)
}

// compareDevices compares a node's reported parts with its expected parts.
func (t *tx) compareDevices(ctx context.Context, nodeID string, f *taskcatalog.Facts) error {
	before, err := devices(ctx, t, nodeID)
	if err != nil {
		return err
	}
	taken, err := t.devicesTaken(ctx, nodeID)
	if err != nil {
		return err
	}
	if n, err := node(ctx, t, nodeID, ""); err != nil || !taken && (n.Status == broker.Active || n.Status == broker.Offline) {
		if err != nil {
			return err
		}
		return t.takeDevices(ctx, nodeActor(nodeID), nodeID) // the node was let in before its first report
	}
	looked := []broker.DeviceKind{}
	if f.DisksListed && (taken || slices.ContainsFunc(before, func(d broker.Device) bool { return d.Kind == broker.DeviceDisk })) {
		looked = append(looked, broker.DeviceDisk)
	}
	if taken {
		looked = append(looked, broker.DeviceGPU)
	}
	after := broker.Compared(before, broker.ReportedDevices(*f), looked, t.now)
	return t.putDevices(ctx, nodeActor(nodeID), nodeID, "reported by the agent", before, after)
}

func (t *tx) devicesTaken(ctx context.Context, nodeID string) (bool, error) {
	var since int64
	err := t.QueryRowContext(ctx, `SELECT devices_taken_at FROM nodes WHERE id = $1`, nodeID).Scan(&since)
	return since > 0, err
}

// takeDevices makes a node's reported parts its expected parts, once, when the node is let in: its
// GPUs, and its disks if MAAS listed none.
func (t *tx) takeDevices(ctx context.Context, actor broker.Actor, nodeID string) error {
	taken, err := t.devicesTaken(ctx, nodeID)
	if err != nil || taken {
		return err
	}
	f, known, err := facts(ctx, t, nodeID)
	if err != nil || !known {
		return err
	}
	before, err := devices(ctx, t, nodeID)
	if err != nil {
		return err
	}
	after := slices.Clone(before)
	for _, d := range broker.ReportedDevices(f) {
		told := func(k broker.Device) bool { return k.Kind == d.Kind && (k.ID == d.ID || k.Source == "maas") }
		if !slices.ContainsFunc(after, told) {
			d.State, d.Since = broker.DeviceFound, t.now
			after = append(after, d)
		}
	}
	handed, err := t.everHanded(ctx, nodeID)
	if err != nil {
		return err
	}
	if !handed { // otherwise a tenant may have influenced the report
		after = broker.RecordDisks(after, f)
	}
	if _, err := t.ExecContext(ctx, `UPDATE nodes SET devices_taken_at = $1 WHERE id = $2`, sqlkit.Micros(t.now), nodeID); err != nil {
		return err
	}
	return t.putDevices(ctx, actor, nodeID, "recorded when the node was let in", before, after)
}

// everHanded reports whether a tenant was ever on a node.
func (t *tx) everHanded(ctx context.Context, nodeID string) (handed bool, err error) {
	err = t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM allocations WHERE node_id = $1)`, nodeID).Scan(&handed)
	return handed, err
}

// RecordDisks makes a fresh system's report on its disks the expected state: the disks that the
// system runs from, and how each disk is attached. Facts from before since are not the fresh
// system's, and change nothing.
func (db *DB) RecordDisks(ctx context.Context, actor broker.Actor, nodeID string, since time.Time, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		if _, err := node(ctx, t, nodeID, t.ForUpdate()); err != nil {
			return err
		}
		var f taskcatalog.Facts
		var reported time.Time
		err := t.QueryRowContext(ctx, `SELECT facts, reported_at FROM node_facts WHERE node_id = $1`, nodeID).Scan(sqlkit.ScanJSON(&f),
			sqlkit.ScanMicros(&reported))
		if errors.Is(err, sql.ErrNoRows) || err == nil && reported.Before(since) {
			return nil
		}
		if err != nil {
			return err
		}
		before, err := devices(ctx, t, nodeID)
		if err != nil {
			return err
		}
		return t.putDevices(ctx, actor, nodeID, reason, before, broker.RecordDisks(before, f))
	})
}

// facts returns the facts that a node reported last; false: none.
func facts(ctx context.Context, r sqlkit.Runner, nodeID string) (f taskcatalog.Facts, known bool, err error) {
	err = r.QueryRowContext(ctx, `SELECT facts FROM node_facts WHERE node_id = $1`, nodeID).Scan(sqlkit.ScanJSON(&f))
	if errors.Is(err, sql.ErrNoRows) {
		return f, false, nil
	}
	return f, err == nil, err
}

// named returns the indexes of parts with this identity, or otherwise with this serial: GPUs of one
// board may share a serial.
func named(all []broker.Device, name string) (at []int) {
	for _, key := range []func(broker.Device) string{
		func(d broker.Device) string { return d.ID },
		func(d broker.Device) string { return d.Serial },
	} {
		for i, d := range all {
			if name != "" && key(d) == name {
				at = append(at, i)
			}
		}
		if len(at) > 0 {
			break
		}
	}
	return at
}

// AcceptDevices accepts that a part is gone, or that another part is there. Each part is named by
// its identity or serial, and must be missing or unexpected, or be a disk whose record differs from
// the node's report. system: the named parts are disks that the system runs from; an erase leaves
// these disks out. Either all are accepted, or none. Codes: node_not_found, node_deleted,
// device_unknown, device_ambiguous, device_not_wrong.
func (db *DB) AcceptDevices(
	ctx context.Context, actor broker.Actor, nodeID string, names []string, system bool, reason string,
) (after []broker.Device, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		e := entry(actor, "node.devices", nodeID)
		e.Reason = reason
		if n.Status == broker.Deleted {
			return refuse(nodeDeleted(n), e)
		}
		before, err := devices(ctx, t, nodeID)
		if err != nil {
			return err
		}
		f, _, err := facts(ctx, t, nodeID)
		if err != nil {
			return err
		}
		after = slices.Clone(before)
		for _, name := range names {
			which := named(after, name)
			i := -1
			if len(which) == 1 {
				i = which[0]
			}
			switch {
			case len(which) > 1:
				return refuse(broker.Errorf(broker.Refused, "device_ambiguous",
					"node %s has %d parts that match %q (name the part by its identity: hostler node device list %s)", nodeID, len(which),
					taskcatalog.Clean(name, 128), nodeID), e)
			case i < 0:
				return refuse(broker.Errorf(broker.NotFound, "device_unknown",
					"node %s has no part %q on record (see hostler node device list %s)", nodeID, taskcatalog.Clean(name, 128), nodeID), e)
			case after[i].State == broker.DeviceMissing && !system:
				after[i].State = broker.DeviceRemoved
			case after[i].State == broker.DeviceUnexpected:
				broker.AcceptDisk(after, i, f, system)
				after[i].State = broker.DeviceFound
			case after[i].State == broker.DeviceFound && broker.AcceptDisk(after, i, f, system):
			default:
				return refuse(broker.Errorf(broker.Refused, "device_not_wrong",
					"cannot accept %s %s of node %s: the part is %s, and there is nothing to accept", after[i].Kind, after[i].ID, nodeID,
					after[i].State), e)
			}
			after[i].Since, after[i].Reason = t.now, reason
		}
		if err := t.recordAccepted(ctx, actor, n, before, after, reason); err != nil {
			return err
		}
		return t.putDevices(ctx, actor, nodeID, reason, before, after)
	})
	return after, err
}

// NodeDevices counts the missing and the unexpected parts of a node.
type NodeDevices struct {
	NodeID, Hostname, Site string
	Missing, Unexpected    int64
	Since                  time.Time // of the first
}

// WrongDevices lists up to limit nodes at sites (nil: all) with missing or unexpected parts, the
// longest affected first.
func (db *DB) WrongDevices(ctx context.Context, sites []string, limit int) ([]NodeDevices, error) {
	w := sqlkit.Where{Terms: []string{"d.state IN ('missing', 'unexpected')", "n.status <> 'deleted'"}}
	sqlkit.In(&w, "n.site", sites)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (d NodeDevices, err error) {
		err = row.Scan(&d.NodeID, &d.Hostname, &d.Site, &d.Missing, &d.Unexpected, sqlkit.ScanMicros(&d.Since))
		return d, err
	}, `SELECT n.id, n.hostname, n.site, SUM(CASE WHEN d.state = 'missing' THEN 1 ELSE 0 END), SUM(CASE WHEN d.state = 'unexpected' THEN 1 ELSE 0 END), MIN(d.since)
		FROM node_devices d JOIN nodes n ON n.id = d.node_id`+w.String()+` GROUP BY n.id, n.hostname, n.site ORDER BY MIN(d.since), n.id`+
		w.Limit(limit), w.Args...)
}
