package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Types of events about allocations. Reaching provisioning has no event.
const (
	ProvisioningRequestedEvent = "provisioning.requested"
	ProvisioningActiveEvent    = "provisioning.active"
	ProvisioningFailedEvent    = "provisioning.failed"
	ReleasingRequestedEvent    = "provisioning.releasing.requested"
	ReleasingCompletedEvent    = "provisioning.releasing.completed"
	ReleaseFailedEvent         = "provisioning.release_failed"
)

// allocationEvents are the events of the statuses.
var allocationEvents = map[broker.AllocationStatus]string{
	broker.AllocationRequested: ProvisioningRequestedEvent, broker.AllocationActive: ProvisioningActiveEvent,
	broker.AllocationFailed: ProvisioningFailedEvent, broker.AllocationReleasing: ReleasingRequestedEvent,
	broker.AllocationReleased: ReleasingCompletedEvent, broker.AllocationReleaseFailed: ReleaseFailedEvent,
}

const allocationColumns = `id, project_id, status, sku, nodes, gpus, site, image, key_ids, ends_at, labels, code, certificate_ids,
	requested_at, provisioning_at, active_at, releasing_at, released_at, failed_at, release_failed_at,
	release_forced, goes_on_at, passed_at`

func scanAllocation(row sqlkit.Row) (a broker.Allocation, err error) {
	err = row.Scan(&a.ID, &a.ProjectID, &a.Status, &a.SKU, &a.Nodes, &a.GPUs, &a.Site, &a.Image, sqlkit.ScanJSON(&a.KeyIDs),
		sqlkit.ScanMicros(&a.EndsAt), sqlkit.ScanJSON(&a.Labels), &a.Code, sqlkit.ScanJSON(&a.CertificateIDs),
		sqlkit.ScanMicros(&a.RequestedAt), sqlkit.ScanMicros(&a.ProvisioningAt), sqlkit.ScanMicros(&a.ActiveAt),
		sqlkit.ScanMicros(&a.ReleasingAt), sqlkit.ScanMicros(&a.ReleasedAt), sqlkit.ScanMicros(&a.FailedAt),
		sqlkit.ScanMicros(&a.ReleaseFailedAt), &a.Forced, sqlkit.ScanMicros(&a.GoesOnAt), sqlkit.ScanMicros(&a.PassedAt))
	return a, err
}

// allocation reads an allocation with its nodes. Code: allocation_not_found.
func allocation(ctx context.Context, r sqlkit.Runner, id, lock string) (broker.Allocation, error) {
	a, err := scanAllocation(r.QueryRowContext(ctx, `SELECT `+allocationColumns+` FROM tenant_allocations WHERE id = $1`+lock, id))
	if errors.Is(err, sql.ErrNoRows) {
		return a, broker.AllocationNotFound(id)
	}
	if err == nil {
		a.NodeIDs, err = claimed(ctx, r, id)
	}
	return a, err
}

// liveClaim returns the allocation that holds a node; an empty allocation: none.
func liveClaim(ctx context.Context, r sqlkit.Runner, nodeID string) (a broker.Allocation, err error) {
	a, err = scanAllocation(r.QueryRowContext(ctx, `SELECT `+allocationColumns+` FROM tenant_allocations
		WHERE id = (SELECT allocation_id FROM allocation_claims WHERE node_id = $1 AND ended_at = 0)`, nodeID))
	if errors.Is(err, sql.ErrNoRows) {
		return broker.Allocation{}, nil
	}
	return a, err
}

// NodeClaim returns the allocation that holds a node, without its nodes; an empty allocation: none.
func (db *DB) NodeClaim(ctx context.Context, nodeID string) (broker.Allocation, error) {
	return liveClaim(ctx, db.reader(), nodeID)
}

// claimed returns the nodes of an allocation, ended claims included, ordered by id.
func claimed(ctx context.Context, r sqlkit.Runner, id string) ([]string, error) {
	return sqlkit.Collect(ctx, r, func(row sqlkit.Row) (node string, err error) { return node, row.Scan(&node) },
		`SELECT node_id FROM allocation_claims WHERE allocation_id = $1 ORDER BY node_id`, id)
}

// Allocation finds an allocation by its id. Code: allocation_not_found.
func (db *DB) Allocation(ctx context.Context, id string) (broker.Allocation, error) {
	return allocation(ctx, db.reader(), id, "")
}

// ProjectAllocation finds an allocation of a project. One statement looks, so that another project's
// allocation and one that never was get the same answer after the same time. Code:
// allocation_not_found.
func (db *DB) ProjectAllocation(ctx context.Context, projectID, id string) (broker.Allocation, error) {
	a, err := scanAllocation(db.reader().QueryRowContext(ctx,
		`SELECT `+allocationColumns+` FROM tenant_allocations WHERE id = $1 AND project_id = $2`, id, projectID))
	if errors.Is(err, sql.ErrNoRows) {
		return a, broker.AllocationNotFound(id)
	}
	if err == nil {
		a.NodeIDs, err = claimed(ctx, db.reader(), id)
	}
	return a, err
}

// AllocationFilter selects allocations; an empty field adds no condition.
type AllocationFilter struct {
	ProjectID, SKU string
	Statuses       []broker.AllocationStatus
	Sites          []string // nil: all
	Labels         map[string]string
	After          string // cursor: the id of the last allocation of the previous page
	Limit          int    // 0: 100
}

// Allocations returns a page, newest first, and the cursor of the next page ("" at the end). A page of
// allocations with labels looks at LabelledAtOnce allocations, and may come back short.
func (db *DB) Allocations(ctx context.Context, f AllocationFilter) (page []broker.Allocation, next string, err error) {
	var w sqlkit.Where
	w.Equal("project_id", f.ProjectID)
	w.Equal("sku", f.SKU)
	sqlkit.In(&w, "status", f.Statuses)
	sqlkit.In(&w, "site", f.Sites)
	if f.After != "" {
		last, args := "id = ?", []any{f.After}
		if f.ProjectID != "" { // a project learns nothing from the id of another project's allocation
			last, args = last+" AND project_id = ?", append(args, f.ProjectID)
		}
		w.Add("(requested_at, id) < (SELECT requested_at, id FROM tenant_allocations WHERE "+last+")", args...)
	}
	page, next, err = labelled[broker.Allocation]{
		scan: scanAllocation, id: func(a broker.Allocation) string { return a.ID },
		labelsOf: func(a broker.Allocation) map[string]string { return a.Labels }, want: f.Labels, limit: cmp.Or(f.Limit, 100),
	}.page(ctx, db, `SELECT `+allocationColumns+` FROM tenant_allocations`+w.String()+` ORDER BY requested_at DESC, id DESC`, &w)
	if err != nil {
		return nil, "", err
	}
	return page, next, db.addClaims(ctx, page)
}

// addClaims fills in the nodes of a page of allocations.
func (db *DB) addClaims(ctx context.Context, page []broker.Allocation) error {
	at, ids := make(map[string]*broker.Allocation, len(page)), make([]string, len(page))
	for i := range page {
		at[page[i].ID], ids[i] = &page[i], page[i].ID
	}
	if len(ids) == 0 {
		return nil
	}
	var w sqlkit.Where
	sqlkit.In(&w, "allocation_id", ids)
	_, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (none struct{}, err error) {
		var id, node string
		if err := row.Scan(&id, &node); err != nil {
			return none, err
		}
		at[id].NodeIDs = append(at[id].NodeIDs, node)
		return none, nil
	}, `SELECT allocation_id, node_id FROM allocation_claims`+w.String()+` ORDER BY node_id`, w.Args...)
	return err
}

// AllocationChange is a change of an allocation's status.
type AllocationChange struct {
	To             broker.AllocationStatus
	By             broker.AllocationOwner
	Force          bool // to releasing: it goes on without the operation of its end
	Reason         string
	Code           string    // of a failure
	GoesOnAt       time.Time // of a failed release: when it goes on by itself; zero: never
	CertificateIDs []string  // of the turnovers that a release ends with
	CorrelationID  string
	// Provisioned are nodes that were made ready. Faults are nodes that could not be, for reasons of
	// their own; from HoldAfter such failures in a row on a node is held (below 1: the default).
	Provisioned []string
	Faults      []broker.ProvisionFault
	HoldAfter   int
}

// TransitionAllocation changes an allocation's status, if broker.TransitionAllocation permits the
// change. An allocation that already has the status keeps it, without an error; a release becomes a
// forced one. Status, claims, usage,
// event and audit row are one transaction. The time of the status is the clock's at the write, not
// at the beginning of the transaction, which may have waited. A refusal is audited. Codes:
// allocation_not_found, transition_refused, certificate_missing, certificate_falls_short,
// failure_code_missing, node_taken, node_offline.
func (db *DB) TransitionAllocation(
	ctx context.Context, actor broker.Actor, id string, c AllocationChange,
) (a broker.Allocation, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		a, err = allocation(ctx, t, id, t.ForUpdate())
		switch {
		case err != nil:
		case a.Status != c.To:
			a, err = t.transitionAllocation(ctx, actor, a, c)
		case c.Force && !a.Forced && c.To == broker.AllocationReleasing:
			a.Forced = true
			err = t.forceReleasing(ctx, actor, a, c)
		}
		return err
	})
	return a, err
}

// forceReleasing makes a release that is under way a forced one.
func (t *tx) forceReleasing(ctx context.Context, actor broker.Actor, a broker.Allocation, c AllocationChange) error {
	if err := t.saveStatus(ctx, a); err != nil {
		return err
	}
	return t.audit(ctx, broker.AuditEntry{
		Actor: actor.Name, Action: transitionAllocation, Subject: "allocation/" + a.ID, Reason: c.Reason, CorrelationID: c.CorrelationID,
		Before: small("status", a.Status, "forced", false), After: small("status", a.Status, "forced", true, "owner", c.By),
	})
}

// transitionAllocation is TransitionAllocation for an allocation whose row is locked, and that has
// another status.
func (t *tx) transitionAllocation(
	ctx context.Context, actor broker.Actor, before broker.Allocation, c AllocationChange,
) (a broker.Allocation, err error) {
	a = before
	e := broker.AuditEntry{
		Actor: actor.Name, Action: transitionAllocation, Subject: "allocation/" + a.ID, Reason: c.Reason,
		CorrelationID: c.CorrelationID, Before: small("status", a.Status),
	}
	if c.To == broker.AllocationFailed || c.To == broker.AllocationReleaseFailed {
		a.Code, a.GoesOnAt = c.Code, c.GoesOnAt
	}
	if c.To == broker.AllocationReleasing {
		a.Forced = a.Forced || c.Force
	}
	if c.To == broker.AllocationReleased {
		a.CertificateIDs = c.CertificateIDs
	}
	err = broker.TransitionAllocation(a, c.To, c.By)
	switch {
	case err != nil:
	case c.To == broker.AllocationActive:
		err = t.stillTheTenants(ctx, a, c.CorrelationID)
	case c.To == broker.AllocationReleased:
		err = t.cleanSince(ctx, a)
	}
	if r, ok := errors.AsType[*broker.Error](err); ok {
		return a, refuse(r, e)
	} else if err != nil {
		return a, err
	}
	at, code := t.clock(), ""
	if before.PassesEnd(c.By, at) {
		a.PassedAt, code = at, broker.AllocationEndPassed
	}
	a.Reach(c.To, at)
	if err := t.saveStatus(ctx, a); err != nil {
		return a, err
	}
	told := a
	told.Code = cmp.Or(a.Code, code)
	if err := t.tellAllocation(ctx, told, before.Status, actor.Name, c.CorrelationID); err != nil {
		return a, err
	}
	if err := t.countProvisions(ctx, actor, a, c); err != nil {
		return a, err
	}
	if err := t.meter(ctx, a, before.Status, c.CorrelationID); err != nil {
		return a, err
	}
	e.After = small("status", a.Status, "owner", c.By, "code", told.Code, "certificates", a.CertificateIDs, "at", reachedText(at))
	return a, t.audit(ctx, e)
}

// saveStatus writes what a transition changes. The claims of an allocation that ended end with it.
func (t *tx) saveStatus(ctx context.Context, a broker.Allocation) error {
	us := sqlkit.Micros
	if _, err := t.ExecContext(ctx, `UPDATE tenant_allocations SET status = $1, code = $2, certificate_ids = $3, provisioning_at = $4,
		active_at = $5, releasing_at = $6, released_at = $7, failed_at = $8, release_failed_at = $9, release_forced = $10, goes_on_at = $11,
		passed_at = $12 WHERE id = $13`,
		string(a.Status), a.Code, sqlkit.JSON(a.CertificateIDs), us(a.ProvisioningAt), us(a.ActiveAt), us(a.ReleasingAt),
		us(a.ReleasedAt), us(a.FailedAt), us(a.ReleaseFailedAt), a.Forced, us(a.GoesOnAt), us(a.PassedAt),
		a.ID); err != nil || !a.Status.Ended() {
		return err
	}
	for _, node := range a.NodeIDs {
		t.hint(HintNode, node)
	}
	_, err := t.ExecContext(ctx, `UPDATE allocation_claims SET ended_at = $1 WHERE allocation_id = $2 AND ended_at = 0`,
		us(t.clock()), a.ID)
	return err
}

// tellAllocation announces a status of an allocation. The event names no node: projects read it.
func (t *tx) tellAllocation(
	ctx context.Context, a broker.Allocation, from broker.AllocationStatus, by, correlationID string,
) error {
	typ, announced := allocationEvents[a.Status]
	if !announced {
		return nil
	}
	return t.send(ctx, told{
		Site: a.Site, CorrelationID: correlationID,
		Message: chain.Message{Type: typ, Subject: "allocation/" + a.ID, Data: map[string]any{
			"allocation_id": a.ID, "project_id": a.ProjectID, "from": from, "to": a.Status, "sku": a.SKU, "nodes": a.Nodes,
			"gpus": a.GPUs, "site": a.Site, "code": a.Code, "certificate_ids": a.CertificateIDs, "by": by,
		}},
	})
}
