package store

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// findArrangedAt returns the nodes of a site that the arrangement of the request chooses; nil: there are too few. The
// candidates of all wishes are judged first, without locks. Of what is chosen, a node that turns out locked or unfit is
// left out, and the rest is chosen anew.
func (p *placement) findArrangedAt(ctx context.Context, site string, wishes []wish) ([]string, error) {
	free, err := p.freeAt(ctx, site, wishes)
	if err != nil {
		return nil, err
	}
	mayHave := anyImage
	if p.n.Image != "" {
		mayHave = withEither
	}
	locked, fit := map[string]bool{}, map[string]bool{}
	if p.wait { // all at once, in the order in which every transaction that waits takes its locks
		if err := p.lockNodes(ctx, site, mayHave, free, locked); err != nil {
			return nil, err
		}
		free = slices.DeleteFunc(free, func(s spot) bool { return !locked[s.id] })
	}
	for {
		chosen := p.choose(free)
		if chosen == nil {
			return nil, nil
		}
		if err := p.lockNodes(ctx, site, mayHave, chosen, locked); err != nil {
			return nil, err
		}
		ids, lost := []string{}, map[string]bool{}
		for _, s := range chosen {
			switch {
			case !locked[s.id]:
				p.passedOver, lost[s.id] = p.passedOver || !p.wait, true
				continue
			case !fit[s.id]:
				if fit[s.id], err = p.fits(ctx, s.id); err != nil {
					return nil, err
				}
			}
			if lost[s.id] = !fit[s.id]; fit[s.id] {
				ids = append(ids, s.id)
			}
		}
		if len(ids) == len(chosen) {
			return ids, nil
		}
		free = slices.DeleteFunc(free, func(s spot) bool { return lost[s.id] })
	}
}

// choose applies the arrangement of the request to free nodes.
func (p *placement) choose(free []spot) (chosen []spot) {
	words := make([]string, len(free))
	for i, s := range free {
		words[i] = s.word
	}
	for _, i := range p.n.Choose(words, p.n.Nodes) {
		chosen = append(chosen, free[i])
	}
	return chosen
}

// freeAt judges all candidates of a site, and returns those that fit, by wishes and then in the order of the policy.
func (p *placement) freeAt(ctx context.Context, site string, wishes []wish) (free []spot, err error) {
	rank, err := p.rank(ctx, site)
	if err != nil {
		return nil, err
	}
	for _, of := range wishes {
		for last := (spot{}); ; {
			page, end, err := p.judge(ctx, site, of, rank, last, p.policy)
			if err != nil {
				return nil, err
			}
			if end.id == "" {
				break
			}
			free, last = append(free, page...), end
		}
	}
	return free, nil
}

// lockNodes locks candidates that are not locked yet, in the order of their ids, and marks those that it got.
func (p *placement) lockNodes(ctx context.Context, site string, of wish, nodes []spot, locked map[string]bool) error {
	var ids []string
	for _, s := range nodes {
		if !locked[s.id] {
			ids = append(ids, s.id)
		}
	}
	slices.Sort(ids)
	lock := p.ForUpdate()
	if !p.wait {
		lock += p.SkipLocked()
	}
	for some := range slices.Chunk(ids, judgedPage) {
		w := p.candidates(site, of)
		sqlkit.In(&w, "id", some)
		got, err := p.spots(ctx, w, "", lock)
		if err != nil {
			return err
		}
		for _, s := range got {
			locked[s.id] = true
		}
	}
	return nil
}

// arranged reports whether the nodes of a request shall stand to each other in some way.
func arranged(r broker.AllocationRequest) bool { return r.Level() != "" && r.Nodes > 1 }
