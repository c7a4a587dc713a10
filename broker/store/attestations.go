package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// Attestation is a person's recorded statement about a part of a node.
type Attestation struct {
	ID, NodeID, Site string
	Kind             broker.DeviceKind // of the part
	DeviceID         string            // of the part
	Statement        json.RawMessage   // the signed content
	Digest           string            // sha256:… of the file
	IssuedAt         time.Time
	File             []byte // the signed file
}

const attestationColumns = `id, node_id, site, kind, device_id, statement, digest, issued_at, file`

func scanAttestation(row sqlkit.Row) (a Attestation, err error) {
	err = row.Scan(&a.ID, &a.NodeID, &a.Site, &a.Kind, &a.DeviceID, sqlkit.ScanRawJSON(&a.Statement), &a.Digest,
		sqlkit.ScanMicros(&a.IssuedAt), &a.File)
	return a, err
}

// Attestable returns the part of a node that a person may attest: an expected part that is missing.
// id is the id for such an attestation. Codes: node_deleted, device_unknown, device_ambiguous,
// device_present, device_attested, device_not_expected.
func (db *DB) Attestable(ctx context.Context, n broker.Node, name string) (d broker.Device, id string, err error) {
	return attestable(ctx, db.reader(), n, name)
}

func attestable(ctx context.Context, r sqlkit.Runner, n broker.Node, name string) (d broker.Device, id string, err error) {
	if n.Status == broker.Deleted {
		return d, "", nodeDeleted(n)
	}
	all, err := devices(ctx, r, n.ID)
	if err != nil {
		return d, "", err
	}
	f, _, err := facts(ctx, r, n.ID)
	if err != nil {
		return d, "", err
	}
	which, shown := named(all, name), taskcatalog.Clean(name, 128)
	if len(which) == 1 {
		d = all[which[0]]
	}
	var words int
	if err := r.QueryRowContext(ctx, `SELECT COUNT(*) FROM attestations WHERE node_id = $1 AND kind = $2 AND device_id = $3`, n.ID,
		string(d.Kind), d.ID).Scan(&words); err != nil {
		return d, "", err
	}
	refused := func(code, format string, args ...any) (broker.Device, string, error) {
		return d, "", broker.Errorf(broker.Refused, code, "cannot attest "+format, args...)
	}
	switch {
	case len(which) == 0:
		return d, "", broker.Errorf(broker.NotFound, "device_unknown", "node %s has no part %q on record (see hostler node device list %s)",
			n.ID, shown, n.ID)
	case len(which) > 1:
		return refused("device_ambiguous", "%q of node %s: %d parts match (name the part by its identity: hostler node device list %s)",
			shown, n.ID, len(which), n.ID)
	case d.State == broker.DeviceFound || d.State == broker.DeviceUnexpected || d.In(f):
		return refused("device_present", "%s %s of node %s: its agent reports that the part is present", d.Kind, d.ID, n.ID)
	case d.State == broker.DeviceRemoved && words > 0:
		return refused("device_attested", "%s %s of node %s: the part is already attested (see hostler node timeline %s)", d.Kind, d.ID,
			n.ID, n.ID)
	case d.State == broker.DeviceRemoved:
		return refused("device_not_expected", "%s %s of node %s: its removal is already accepted, so the part is not expected", d.Kind,
			d.ID, n.ID)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d", n.ID, d.Kind, d.ID, words))
	return d, "att-" + hex.EncodeToString(sum[:10]), nil
}

// KeepAttestation stores a person's statement about a part that is still attestable under the same
// id, and removes the part from the node's expected parts. said is for the audit log and the part's
// record. Codes: as Attestable.
func (db *DB) KeepAttestation(ctx context.Context, actor broker.Actor, a Attestation, said, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, a.NodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		d, id, err := attestable(ctx, t, n, a.DeviceID)
		switch {
		case err != nil:
			return err
		case id != a.ID || d.Kind != a.Kind:
			return broker.Errorf(broker.Refused, "device_attested",
				"cannot attest %s %s of node %s: another request has attested it in the meantime", d.Kind, d.ID, n.ID)
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO attestations (`+attestationColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			a.ID, n.ID, n.Site, string(a.Kind), a.DeviceID, string(a.Statement), a.Digest, sqlkit.Micros(a.IssuedAt), a.File); err != nil {
			return err
		}
		before, err := devices(ctx, t, n.ID)
		if err != nil {
			return err
		}
		after := append([]broker.Device(nil), before...)
		for i := range after {
			if after[i].Kind == d.Kind && after[i].ID == d.ID {
				after[i].State, after[i].Since, after[i].Reason = broker.DeviceRemoved, t.now, said
			}
		}
		if err := t.recordAccepted(ctx, actor, n, before, after, said); err != nil {
			return err
		}
		if err := t.putDevices(ctx, actor, n.ID, said, before, after); err != nil {
			return err
		}
		e := entry(actor, "certificate.attest", n.ID)
		e.Reason, e.After = reason, small("attestation", a.ID, "device", string(a.Kind)+" "+a.DeviceID, "said", said, "digest", a.Digest)
		return t.audit(ctx, e)
	})
}

// Attestation reads an attestation. Code: certificate_not_found.
func (db *DB) Attestation(ctx context.Context, id string) (Attestation, error) {
	a, err := scanAttestation(db.reader().QueryRowContext(ctx, `SELECT `+attestationColumns+` FROM attestations WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return a, broker.Errorf(broker.NotFound, "certificate_not_found", "there is no attestation %q", taskcatalog.Clean(id, 128))
	}
	return a, err
}

// Attestations returns a node's attestations since it was last handed out clean, oldest first: the
// attestations for its next certificate.
func (db *DB) Attestations(ctx context.Context, nodeID string) ([]Attestation, error) {
	return sqlkit.Collect(ctx, db.reader(), scanAttestation,
		`SELECT `+attestationColumns+` FROM attestations WHERE node_id = $1 AND certified_by = '' ORDER BY issued_at, id`, nodeID)
}
