package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// NewAllocation is a request for nodes, as a project makes it.
type NewAllocation struct {
	ID        string
	ProjectID string
	broker.AllocationRequest
	KeyIDs []string
	EndsAt time.Time // zero: no end
	Labels map[string]string
}

// CreateAllocation claims nodes for a project: all that were asked for, at one site, or none.
// Allocation, claims, event, audit row and the context's RequestKey are one transaction. A refusal
// is audited, and uses no key up. A key that has begun an allocation before is refused with
// BegunBefore. Codes: allocation_invalid, sku_unavailable, quota_exceeded, project_not_found,
// project_ended, allocation_exists, idempotency_conflict.
func (db *DB) CreateAllocation(ctx context.Context, actor broker.Actor, n NewAllocation) (made broker.Allocation, err error) {
	create := func(wait bool) error {
		return db.write(ctx, func(ctx context.Context, t *tx) (err error) {
			made, err = t.createAllocation(ctx, actor, n, wait)
			return err
		})
	}
	if err = create(false); errors.Is(err, errContended) {
		err = create(true)
	}
	return made, err
}

// errContended says that nodes were passed over because other transactions hold them: only a
// transaction that waits for them knows whether they are free.
var errContended = errors.New("nodes are locked by other transactions")

func (t *tx) createAllocation(ctx context.Context, actor broker.Actor, n NewAllocation, wait bool) (a broker.Allocation, err error) {
	e := broker.AuditEntry{Actor: actor.Name, Action: createAllocation, Subject: "project/" + n.ProjectID}
	if n.ID == "" || n.ProjectID == "" || !n.EndsAt.IsZero() && !n.EndsAt.After(t.now) {
		return a, refuse(broker.Errorf(broker.Invalid, "allocation_invalid",
			"cannot allocate SKU %s: the allocation needs an id, a project, and an end that lies ahead", n.SKU), e)
	}
	if err := t.takeRequestKey(ctx, n.ID); err != nil { // before the quota: a repeated request counts once
		return a, err
	}
	if err := n.Check(); err != nil {
		return a, refuse(broker.AsError(err), e)
	}
	s, err := sku(ctx, t, n.SKU, "")
	if err != nil && broker.AsError(err).Code != "sku_not_found" {
		return a, err
	}
	if err := cmp.Or(s.Offers(n.AllocationRequest), s.Places(n.AllocationRequest)); err != nil {
		return a, refuse(broker.AsError(err), e)
	}
	if err := t.passFreezes(ctx); err != nil {
		return a, err
	}
	asks, err := t.withinQuota(ctx, n.ProjectID, n.AllocationRequest)
	if err != nil {
		if r, ok := errors.AsType[*broker.Error](err); ok {
			return a, refuse(r, e)
		}
		return a, err
	}
	p := placement{tx: t, n: n, policy: asks.Placement, offered: s.Offer.Sites, wait: wait}
	p.reads = readByPlacement + 2*n.Nodes // a node that was judged is judged again with its lock
	p.looked, p.free = map[string]bool{}, map[string]int{}
	if err := p.heedReservations(ctx); err != nil {
		return a, err
	}
	site, nodes, err := p.find(ctx)
	switch {
	case err != nil:
		return a, err
	case len(nodes) == 0 && p.passedOver && !wait:
		return a, errContended
	case len(nodes) == 0:
		return a, refuse(n.NoneFree(), e)
	}
	labels := map[string]string{}
	maps.Copy(labels, n.Labels)
	a = broker.Allocation{
		ID: n.ID, ProjectID: n.ProjectID, SKU: n.SKU, Nodes: n.Nodes, Site: site, Image: n.Image,
		EndsAt: n.EndsAt.UTC().Truncate(time.Microsecond),
		KeyIDs: append([]string{}, n.KeyIDs...), Labels: labels, NodeIDs: nodes, CertificateIDs: []string{},
	}
	a.Reach(broker.AllocationRequested, t.clock())
	if err := t.insertAllocation(ctx, a); err != nil {
		if r, ok := errors.AsType[*broker.Error](err); ok {
			return a, refuse(r, e)
		}
		return a, err
	}
	if err := t.tellAllocation(ctx, a, "", actor.Name, ""); err != nil {
		return a, err
	}
	e.Subject = "allocation/" + a.ID
	owner := broker.AllocationAdmin
	if actor.Role.OfTenants() {
		owner = broker.AllocationUser
	}
	e.After = small("project", a.ProjectID, "sku", a.SKU, "site", a.Site, "nodes", a.NodeIDs, "status", a.Status, "owner", owner,
		"at", reachedText(a.RequestedAt))
	return a, t.audit(ctx, e)
}

// insertAllocation writes an allocation with its claims. Code: allocation_exists.
func (t *tx) insertAllocation(ctx context.Context, a broker.Allocation) error {
	rows, err := sqlkit.Changed(t.ExecContext(ctx, `INSERT INTO tenant_allocations (`+allocationColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, '', '[]', $12, 0, 0, 0, 0, 0, 0, FALSE, 0, 0) ON CONFLICT (id) DO NOTHING`,
		a.ID, a.ProjectID, string(a.Status), a.SKU, a.Nodes, a.GPUs, a.Site, a.Image, sqlkit.JSON(a.KeyIDs), sqlkit.Micros(a.EndsAt),
		sqlkit.JSON(a.Labels), sqlkit.Micros(a.RequestedAt)))
	if err != nil {
		return err
	}
	if rows == 0 {
		return broker.Errorf(broker.Refused, "allocation_exists", "cannot create allocation %s: an allocation of that id exists", a.ID)
	}
	for _, node := range a.NodeIDs {
		if _, err := t.ExecContext(ctx, `INSERT INTO allocation_claims (allocation_id, node_id, since, ended_at) VALUES ($1, $2, $3, 0)`,
			a.ID, node, sqlkit.Micros(a.RequestedAt)); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `UPDATE nodes SET claims = claims + 1 WHERE id = $1`, node); err != nil { // the row is locked
			return err
		}
		t.hint(HintNode, node)
	}
	return nil
}

// placement looks for nodes within a transaction, and locks them. The order of the locks is the
// same in every transaction that waits: by site, then by node.
type placement struct {
	*tx
	n       NewAllocation
	policy  broker.ProjectPlacement
	offered []string // sites; empty: all
	wait    bool     // for locks; false: locked nodes are passed over
	// passedOver: nodes that might have been found are locked by other transactions.
	passedOver bool
	looked     map[string]bool      // candidates that were judged
	unfit      bool                 // a locked node did not fit
	reads      int                  // certificates that may be read, see readByPlacement
	reserved   []broker.Reservation // of the SKU, in force
	held       []broker.HeldNodes   // of the projects with these reservations
	free       map[string]int       // by site, see countFree
}

// find returns the first site with enough nodes, and those nodes. No nodes: there is no such site.
func (p *placement) find(ctx context.Context) (site string, nodes []string, err error) {
	sites, err := p.sites(ctx)
	if err != nil {
		return "", nil, err
	}
	for _, wishes := range p.wishes() {
		for _, site := range sites {
			if leaves, err := p.leavesReserved(ctx, site); err != nil {
				return "", nil, err
			} else if !leaves {
				continue
			}
			nodes, err := p.findAllAt(ctx, site, wishes)
			if err != nil || len(nodes) == p.n.Nodes {
				return site, nodes, err
			}
		}
	}
	return "", nil, nil
}

// findAllAt returns up to the number of nodes asked for, at a site, by wishes in their order.
func (p *placement) findAllAt(ctx context.Context, site string, wishes []wish) (nodes []string, err error) {
	if arranged(p.n.AllocationRequest) {
		return p.findArrangedAt(ctx, site, wishes)
	}
	for _, of := range wishes {
		more, err := p.findAt(ctx, site, of, p.n.Nodes-len(nodes))
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, more...)
	}
	return nodes, nil
}

// sites returns the sites to look at, in the order of the locks. Sites where the project has an unfilled
// reservation come first. That order is safe: placements of a SKU with reservations run one at a time.
func (p *placement) sites(ctx context.Context) ([]string, error) {
	if p.n.Site != "" {
		return []string{p.n.Site}, nil
	}
	all, err := p.allSites(ctx)
	return broker.Keep(p.reserved, p.held, nil).OwnFirst(p.n.ProjectID, all), err
}

// allSites returns the sites where the SKU is offered.
func (p *placement) allSites(ctx context.Context) ([]string, error) {
	if len(p.offered) > 0 {
		return slices.Sorted(slices.Values(p.offered)), nil
	}
	return p.distinctSites(ctx)
}

// distinctSites returns the sites with nodes of the SKU. It looks from site to site in the index:
// there are few sites and many nodes.
func (p *placement) distinctSites(ctx context.Context) (sites []string, err error) {
	const after = `SELECT site FROM nodes WHERE sku = $1 AND site > $2 ORDER BY site LIMIT 1`
	first := strings.Replace(after, ">", ">=", 1) // the site of nodes without a site is empty
	for query, last := first, ""; ; query = after {
		err := p.QueryRowContext(ctx, query, p.n.SKU, last).Scan(&last)
		if errors.Is(err, sql.ErrNoRows) {
			return sites, nil
		}
		if err != nil {
			return nil, err
		}
		sites = append(sites, last)
	}
}
