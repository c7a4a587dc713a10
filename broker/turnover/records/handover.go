package records

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
)

// Handover is the replacement of a soft reset whose node is silent.
type Handover struct {
	Due bool   // a reimage is to begin, unless there would be too many
	Run string // the reimage; empty: not begun, or none
}

// Handover says whether a reimage replaces a run: see Silence.
func (s *Starts) Handover(ctx context.Context, r chain.Record) (h Handover, err error) {
	state, due := turnover.SilentSoftReset(r)
	switch {
	case due:
	case !turnover.CancelledForReimage(r, broker.System.Name):
		return h, nil
	default:
		next, err := s.DB.Run(ctx, turnover.FollowerOf(r.ID))
		if no, is := errors.AsType[*chain.Refused](err); !is || no.Code != "run_not_found" {
			return Handover{Run: next.ID}, err
		}
		if last, err := s.DB.LastRestore(ctx); err != nil || !r.CompletedAt.After(last.RestoredAt) {
			return h, err // of a backup: see Silence
		}
		if err := json.Unmarshal(r.State, &state); err != nil {
			return h, err
		}
		n, err := s.DB.Node(ctx, state.NodeID)
		if err != nil || !turnover.UnchangedSinceCancel(r.ID, n) { // somebody has moved the node
			return h, err
		}
	}
	h.Due, err = s.replaceable(ctx, r.ID, state)
	if err != nil && broker.AsError(err).Kind != broker.Internal { // a reimage cannot begin in this state
		err = nil
	}
	return h, err
}

// replaceable reports whether MAAS has the machine of a run's node, and a reimage could begin in
// the run's place.
func (s *Starts) replaceable(ctx context.Context, run string, state turnover.Turnover) (bool, error) {
	n, err := s.DB.Node(ctx, state.NodeID)
	if err != nil || n.MAASSystemID == "" {
		return false, err
	}
	_, err = s.replacement(ctx, run, n, state)
	return err == nil, err
}

// replacement is the start of the reimage in a run's place.
func (s *Starts) replacement(ctx context.Context, run string, n broker.Node, state turnover.Turnover) (chain.Start, error) {
	at, err := s.Place(ctx, n, state.Profile)
	if err != nil {
		return chain.Start{}, err
	}
	t, locks, err := turnover.New(n, at, turnover.ReplacementRequest(run, state))
	start := NewStart(n, t, locks, Requester{Name: broker.System.Name})
	start.ID = turnover.FollowerOf(run)
	return start, err
}
