package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// skuColumns has separate columns for the offer and the bindings: an update by a broker of the release
// before rewrites the column sku, and knows neither.
const skuColumns = `id, sku, offer, bindings, created_at, updated_at`

// skuRow is the JSON form of a SKU in its column.
type skuRow struct {
	Description    string                  `json:"description"`
	GPUVendor      string                  `json:"gpu_vendor"`
	GPUModel       string                  `json:"gpu_model"`
	GPUCount       int                     `json:"gpu_count"`
	GPUMemoryBytes uint64                  `json:"gpu_memory_bytes"`
	NICs           []string                `json:"nics"`
	BootDisk       broker.BootDiskRule     `json:"boot_disk"`
	GPUSettings    taskcatalog.GPUSettings `json:"gpu_settings"`
	ScrubFloor     broker.ScrubFloor       `json:"scrub_floor"`
	DPUDisks       bool                    `json:"dpu_emulated_disks,omitzero"`
}

func rowOf(s broker.SKU) skuRow {
	return skuRow{
		s.Description, s.GPUVendor, s.GPUModel, s.GPUCount, s.GPUMemoryBytes, s.NICs, s.BootDisk, s.GPUSettings, s.ScrubFloor,
		s.DPUDisks,
	}
}

// skuAudit is a SKU in the audit log.
func skuAudit(s broker.SKU) []byte {
	return []byte(sqlkit.JSON(struct {
		skuRow
		broker.Offer
		broker.OperationBindings
	}{rowOf(s), s.Offer, s.Bindings}))
}

func scanSKU(row sqlkit.Row) (broker.SKU, error) {
	var r skuRow
	var id string
	var created, updated time.Time
	offer := broker.NewOffer() // of a SKU that is older than offers
	var bindings broker.OperationBindings
	err := row.Scan(&id, sqlkit.ScanJSON(&r), sqlkit.ScanJSON(&offer), sqlkit.ScanJSON(&bindings),
		sqlkit.ScanMicros(&created), sqlkit.ScanMicros(&updated))
	return broker.SKU{
		ID: id, Description: r.Description, GPUVendor: r.GPUVendor, GPUModel: r.GPUModel, GPUCount: r.GPUCount,
		GPUMemoryBytes: r.GPUMemoryBytes,
		NICs:           r.NICs, BootDisk: r.BootDisk, GPUSettings: r.GPUSettings, ScrubFloor: r.ScrubFloor, DPUDisks: r.DPUDisks,
		Offer:     offer,
		Bindings:  bindings,
		CreatedAt: created,
		UpdatedAt: updated,
	}, err
}

func sku(ctx context.Context, r sqlkit.Runner, id, lock string) (broker.SKU, error) {
	s, err := scanSKU(r.QueryRowContext(ctx, `SELECT `+skuColumns+` FROM skus WHERE id = $1`+lock, id))
	if errors.Is(err, sql.ErrNoRows) {
		return s, broker.Errorf(broker.NotFound, "sku_not_found", "there is no SKU %q (see hostler sku list)", id)
	}
	return s, err
}

// SKU finds a SKU by its id. Code: sku_not_found.
func (db *DB) SKU(ctx context.Context, id string) (broker.SKU, error) {
	return sku(ctx, db.reader(), id, "")
}

// SKUs lists the SKUs, ordered by id.
func (db *DB) SKUs(ctx context.Context) ([]broker.SKU, error) {
	return sqlkit.Collect(ctx, db.reader(), scanSKU, `SELECT `+skuColumns+` FROM skus ORDER BY id`)
}

// CreateSKU stores a new SKU. Codes: sku_invalid, sku_exists, site_not_found.
func (db *DB) CreateSKU(ctx context.Context, actor broker.Actor, s broker.SKU) (made broker.SKU, err error) {
	if err := s.Check(); err != nil {
		return made, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.offeredSites(ctx, s.Offer.Sites); err != nil {
			return err
		}
		n, err := sqlkit.Changed(t.ExecContext(ctx,
			`INSERT INTO skus (`+skuColumns+`) VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (id) DO NOTHING`, s.ID,
			sqlkit.JSON(rowOf(s)), sqlkit.JSON(s.Offer), sqlkit.JSON(s.Bindings), sqlkit.Micros(t.now)))
		if err != nil {
			return err
		}
		if n == 0 {
			return broker.Errorf(broker.Refused, "sku_exists", "cannot create SKU %s: a SKU of that id exists (see hostler sku show %s)",
				s.ID, s.ID)
		}
		if made, err = sku(ctx, t, s.ID, ""); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "sku.create", Subject: "sku/" + s.ID,
			After: skuAudit(s),
		})
	})
	return made, err
}

// UpdateSKU applies change to a SKU; the id cannot change. Codes: sku_not_found, sku_invalid,
// site_not_found.
func (db *DB) UpdateSKU(
	ctx context.Context, actor broker.Actor, id, reason string, change func(*broker.SKU) error,
) (s broker.SKU, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		before, err := sku(ctx, t, id, t.ForUpdate())
		if err != nil {
			return err
		}
		s = before
		if err := change(&s); err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			return err
		}
		if s.ID != before.ID {
			return broker.Errorf(broker.Invalid, "sku_invalid", "cannot rename SKU %s: nodes refer to it by that id", before.ID)
		}
		if err := t.offeredSites(ctx, s.Offer.Sites); err != nil {
			return err
		}
		s.UpdatedAt = t.now
		if _, err := t.ExecContext(ctx, `UPDATE skus SET sku = $1, offer = $2, bindings = $3, updated_at = $4 WHERE id = $5`,
			sqlkit.JSON(rowOf(s)), sqlkit.JSON(s.Offer), sqlkit.JSON(s.Bindings), sqlkit.Micros(t.now), s.ID); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "sku.update", Subject: "sku/" + s.ID, Reason: reason,
			Before: skuAudit(before), After: skuAudit(s),
		})
	})
	return s, err
}

// offeredSites refuses the name of a site that does not exist: a SKU offered there alone would be
// offered nowhere. Code: site_not_found.
func (t *tx) offeredSites(ctx context.Context, names []string) error {
	for _, name := range names {
		if _, err := site(ctx, t, name, ""); err != nil {
			return err
		}
	}
	return nil
}
