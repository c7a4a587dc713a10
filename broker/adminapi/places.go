package adminapi

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
)

type placeInput struct {
	NodeInput
	Body api.NodePlaceChange
}

// placeNode changes where a node stands. A node that stands there already is left as it is.
func (a *API) placeNode(ctx context.Context, in *placeInput) (*api.Node, error) {
	ctx = withReason(ctx, in.Body.Reason)
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	changes := map[string]broker.NodePlaceChange{n.ID: broker.NodePlaceChange(in.Body.PlaceChange)}
	changed, err := a.c.DB.ChangePlaces(ctx, callerOf(ctx).actor(), changes)
	if err != nil {
		return nil, err
	}
	if len(changed) == 1 {
		n = changed[0]
	}
	out := a.changedNode(ctx, n)
	return &out, nil
}

type placesInput struct{ Body api.NodePlaces }

// placeNodes changes where nodes stand: of all in the list, or of none.
func (a *API) placeNodes(ctx context.Context, in *placesInput) (*api.NodePlacesResult, error) {
	ctx = withReason(ctx, in.Body.Reason)
	changes := map[string]broker.NodePlaceChange{}
	for i, p := range in.Body.Items {
		where := fmt.Sprintf("item %d", i+1)
		if p.Line > 0 {
			where = fmt.Sprintf("line %d", p.Line)
		}
		if err := (broker.NodePlace{}).With(broker.NodePlaceChange(p.PlaceChange)).Check(); err != nil {
			return nil, ofItem(where, err)
		}
		n, err := a.node(ctx, p.Node)
		if err != nil {
			return nil, ofItem(where, err)
		}
		if _, twice := changes[n.ID]; twice {
			return nil, ofItem(where, broker.Errorf(broker.Invalid, "place_invalid", "the list names node %s twice", n.ID))
		}
		changes[n.ID] = broker.NodePlaceChange(p.PlaceChange)
	}
	changed, err := a.c.DB.ChangePlaces(ctx, callerOf(ctx).actor(), changes)
	if err != nil {
		return nil, err
	}
	return &api.NodePlacesResult{Changed: len(changed), Unchanged: len(changes) - len(changed)}, nil
}

// ofItem says which item of a list an error is about.
func ofItem(where string, err error) error {
	e := broker.AsError(err)
	return broker.Errorf(e.Kind, e.Code, "%s: %s", where, e.Message)
}
