package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// ranks are what the orders of placement compare before the ids of nodes; no entry: nothing. The indexes
// nodes_certified and nodes_claims have the same expressions.
var ranks = map[broker.PlacementOrder]string{broker.NewestCertificate: "(-certified_at)", broker.LeastUsed: "claims"}

// spot is the place of a node in the order of a site's candidates, with the node's labels and the word by which the
// request arranges nodes. Without an id it
// is before all nodes.
type spot struct {
	rank   int64
	id     string
	labels map[string]string
	word   string
}

// rank returns what the nodes of a site are ordered by before their ids; empty: nothing. A transaction that
// waits for locks takes them in the order of the ids, whatever the policy is: two policies might have two
// orders, and each transaction would hold what the other one waits for.
func (p *placement) rank(ctx context.Context, site string) (string, error) {
	if p.wait {
		return "", nil
	}
	if p.policy.Order != "" {
		return ranks[p.policy.Order], nil
	}
	order, err := siteOrder(ctx, p, site)
	return ranks[order], err
}

// siteOrder returns the order of a site: of the policy of its default profile. Nodes at no site, or at a site
// that is not on record, have the default order.
func siteOrder(ctx context.Context, r sqlkit.Runner, site string) (broker.PlacementOrder, error) {
	p, err := scanProfile(r.QueryRowContext(ctx, `SELECT `+profileColumns+` FROM maas_site_profiles
		WHERE id = (SELECT default_profile_id FROM maas_sites WHERE name = $1)`, site))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", err
	}
	return broker.PlacementOrder(p.Policy.PlacementOrder), nil
}

// wish is which image a candidate has.
type wish int

const (
	anyImage   wish = iota
	withImage       // the one that was asked for
	toReimage       // another one, or none that is known, and MAAS can install the one that was asked for
	withEither      // withImage or toReimage
)

// hasImage and installable are conditions on a node: it has an image, and MAAS can install one. At a site whose MAAS
// does not answer, nobody knows when it can.
const (
	hasImage    = "EXISTS (SELECT 1 FROM node_images i WHERE i.node_id = nodes.id AND i.epoch = nodes.epoch AND i.image = ?)"
	installable = "maas_system_id <> '' AND EXISTS (SELECT 1 FROM maas_sites m WHERE m.name = nodes.site) AND " +
		"NOT EXISTS (SELECT 1 FROM chain_holds u WHERE u.site = nodes.site AND u.kind = 'unreachable' AND u.until_at = 0)"
)

// wishes are the rounds of a placement over the sites, each with what it takes at a site, in that order. Nodes
// that have the image come first, at whatever site. A transaction that waits for locks makes one round in the order of the
// ids.
func (p *placement) wishes() [][]wish {
	switch {
	case p.n.Image == "":
		return [][]wish{{anyImage}}
	case p.wait:
		return [][]wish{{withEither}}
	}
	return [][]wish{{withImage}, {withImage, toReimage}}
}

// candidates selects the nodes of a site to look at. The selection leaves out only nodes that
// broker.Handout refuses for certain; Handout judges the rest.
func (p *placement) candidates(site string, of wish) (w sqlkit.Where) {
	w.Add("sku = ?", p.n.SKU)
	w.Add("site = ?", site)
	w.Add("status = ?", string(broker.Active))
	w.Add("turnover_owed = ?", false)
	w.Add("NOT EXISTS (SELECT 1 FROM allocation_claims c WHERE c.node_id = nodes.id AND c.ended_at = 0)")
	w.Add("NOT EXISTS (SELECT 1 FROM maintenances m WHERE m.node_id = nodes.id AND m.status = 'open')")
	switch image := broker.ImageName(p.n.Image); of {
	case withImage:
		w.Add(hasImage, image)
	case toReimage:
		w.Add("NOT "+hasImage, image)
		w.Add(installable)
	case withEither:
		w.Add("("+hasImage+" OR "+installable+")", image)
	}
	return w
}

// beyond selects what comes after a spot in the order of a rank.
func beyond(w *sqlkit.Where, rank string, after spot) {
	switch {
	case after.id == "":
	case rank == "":
		w.Add("id > ?", after.id)
	default:
		w.Add("("+rank+", id) > (?, ?)", after.rank, after.id)
	}
}

// findAt returns up to a number of nodes of a site, in the order of its policy. It locks few
// more nodes than it returns, so that other transactions find theirs.
func (p *placement) findAt(ctx context.Context, site string, of wish, most int) (nodes []string, err error) {
	rank, err := p.rank(ctx, site)
	if err != nil {
		return nil, err
	}
	for last := (spot{}); len(nodes) < most; {
		ids, end, err := p.next(ctx, site, of, rank, last, most-len(nodes))
		if err != nil {
			return nil, err
		}
		if end.id == "" {
			break
		}
		for _, id := range ids {
			fits, err := p.fits(ctx, id)
			if err != nil {
				return nil, err
			}
			if p.looked[id] = true; fits {
				nodes = append(nodes, id)
			} else {
				p.unfit = true
			}
		}
		last = end
	}
	if len(nodes) < most && !p.wait {
		now, err := p.spots(ctx, p.candidates(site, of), "", "")
		if err != nil {
			return nil, err
		}
		p.passedOver = p.passedOver || slices.ContainsFunc(now, func(s spot) bool { return !p.looked[s.id] })
	}
	return nodes, nil
}

// judgedPage is how many candidates are judged together.
const judgedPage = 200

// next locks the next candidates of a site after a spot. end is the last candidate that need not be
// looked at again; without an id: there are no more. Most candidates fit, so the first are locked at once.
// Once one did not fit, or if the project is pinned to labels, candidates are judged together without locks,
// and only those that fit are locked.
func (p *placement) next(
	ctx context.Context, site string, of wish, rank string, after spot, most int,
) (ids []string, end spot, err error) {
	w := p.candidates(site, of)
	judged := p.unfit || len(p.policy.NodeLabels) > 0
	if judged {
		free, last, err := p.judge(ctx, site, of, rank, after, p.policy)
		if err != nil || len(free) == 0 {
			return nil, last, err
		}
		end = last
		ids := make([]string, len(free))
		for i, s := range free {
			ids[i] = s.id
		}
		sqlkit.In(&w, "id", ids)
	} else {
		beyond(&w, rank, after)
	}
	lock := p.ForUpdate()
	if !p.wait {
		lock += p.SkipLocked()
	}
	limit := w.Limit(most) // adds an argument to w
	locked, err := p.spots(ctx, w, rank, limit+lock)
	if len(locked) == most || len(locked) > 0 && !judged {
		end = locked[len(locked)-1]
	}
	for _, s := range locked {
		ids = append(ids, s.id)
	}
	return ids, end, err
}

// judge judges a page of candidates without locks, and returns those that fit and have the labels of a policy,
// and the last one of the page.
func (p *placement) judge(
	ctx context.Context, site string, of wish, rank string, after spot, policy broker.ProjectPlacement,
) (free []spot, last spot, err error) {
	w := p.candidates(site, of)
	beyond(&w, rank, after)
	limit := w.Limit(judgedPage) // adds an argument to w
	page, err := p.spots(ctx, w, rank, limit)
	if err != nil || len(page) == 0 {
		return nil, last, err
	}
	var ids []string
	for _, s := range page {
		if len(policy.Lacks(s.labels)) == 0 {
			ids = append(ids, s.id)
		} else {
			p.looked[s.id] = true
		}
	}
	if last = page[len(page)-1]; len(ids) == 0 {
		return nil, last, nil
	}
	fleet, err := handouts(ctx, p, nodesWith(ids), p.clock())
	if err == nil {
		unjudged := stale(fleet)
		spare := max(p.reads-p.n.Nodes, 0) // the chosen nodes are judged again with their locks
		err = judgeFiles(ctx, p, p.judges(), unjudged[:min(len(unjudged), spare)])
	}
	fit := map[string]bool{}
	for _, f := range fleet {
		if len(f.Reasons("", "")) == 0 {
			fit[f.Node.ID] = true
		} else {
			p.looked[f.Node.ID] = true
		}
	}
	return slices.DeleteFunc(page, func(s spot) bool { return !fit[s.id] }), last, err
}

// readByPlacement is how many certificates without a verdict by the policy in force a placement reads, beyond those
// of its nodes. After a change of a policy there may be thousands, until the leading broker has judged them; the
// nodes of the others count as not judged.
const readByPlacement = 50

// judges counts the certificates that are read; nil: no more are.
func (p *placement) judges() JudgeCertificate {
	if p.judgeFile == nil || p.reads <= 0 {
		return nil
	}
	return func(file []byte, policy broker.TurnoverPolicy) []string {
		p.reads--
		return p.judgeFile(file, policy)
	}
}

// spots returns the selected nodes in the order of a rank. Where the place lacks the word, a label of that name counts,
// as in broker.Trait.
func (p *placement) spots(ctx context.Context, w sqlkit.Where, rank, tail string) ([]spot, error) {
	what, by, word := "0", "id", "''"
	if arranged(p.n.AllocationRequest) {
		word = "place_" + p.n.Level() // a part of places, as Check has found
	}
	if rank != "" {
		what, by = rank, rank+", id"
	}
	return sqlkit.Collect(ctx, p, func(row sqlkit.Row) (s spot, err error) {
		err = row.Scan(&s.rank, &s.id, sqlkit.ScanJSON(&s.labels), &s.word)
		if s.word == "" {
			s.word = s.labels[p.n.Level()]
		}
		return s, err
	}, `SELECT `+what+`, id, labels, `+word+` FROM nodes`+w.String()+` ORDER BY `+by+tail, w.Args...)
}

// fits reports whether a locked node may be handed to the allocation. The facts are read after the
// lock was granted: whoever held the lock before may have claimed the node. The judge gets neither
// allocation nor tenant: a node that the same tenant has left is turned over, too, and a user made by
// hand may name the id of any allocation.
func (p *placement) fits(ctx context.Context, id string) (bool, error) {
	n, err := node(ctx, p, id, "")
	if err != nil || len(p.policy.Lacks(n.Labels)) > 0 {
		return false, err
	}
	h, err := handout(ctx, p, p.judges(), n, p.clock())
	return err == nil && len(h.Reasons("", "")) == 0, err
}
