package records

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
)

// placeLocks begins the names of the locks of a site's places.
func placeLocks(site string) string { return "turnovers/" + site + "/" }

// places reads the use of a site's places, for a release or (nil) for any other turnover.
func (s *Starts) places(ctx context.Context, site string, release *broker.Allocation) (store.TurnoverPlaces, error) {
	return s.DB.TurnoverPlaces(ctx, site, placeLocks(site), turnover.ByThemselves, release)
}

// StartInPlace begins a turnover that nobody has requested, if one of the places of its site is free for it.
// release is the release that needs the turnover; nil: none. waits says why the turnover has not begun; empty: it
// has. The place is a lock of the run: it outlives the broker, and two brokers never give it twice.
func (s *Starts) StartInPlace(ctx context.Context, start chain.Start, limit int, release *broker.Allocation) (waits string, err error) {
	p, err := s.places(ctx, start.Site, release)
	if err != nil {
		return "", err
	}
	if p.Open+p.Ahead >= limit {
		return fmt.Sprintf("the turnover waits for a place: at site %s %d turnovers that began by themselves have not ended, %d releases go first, and the limit is %d (automatic_turnovers_at_once)",
			start.Site, p.Open, p.Ahead, limit), nil
	}
	for i := range limit {
		if place := fmt.Sprint(placeLocks(start.Site), i); !slices.Contains(p.Taken, place) {
			start.Locks = append(slices.Clone(start.Locks), place)
			break
		}
	}
	_, err = s.Runs.Start(ctx, start)
	if _, taken := errors.AsType[*chain.Locked](err); taken {
		return "another run has taken the node or the place at the same moment", nil
	}
	return "", err
}
