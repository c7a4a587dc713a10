package rollout

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// Rows are the members of rollouts.
type Rows interface {
	// Members are the rows of a rollout's members, by their places.
	Members(ctx context.Context, rollout string) ([]broker.RolloutMember, error)
}

// open gives a stage the members, which are separate rows, and adds the changed members to the
// save of its step. This also happens after a failure or a panic, since the state is saved then,
// too.
//
// A new rollout has its members in the state of its run, and the first step moves them into rows;
// a rollout begun by an earlier broker moves them at its next step. From then on the state is of
// form 2: an engine that does not know form 2 neither steps the run nor acts on it. A leader of
// the previous release, which would read a rollout without members, therefore leaves the run
// alone while the brokers are replaced one by one. Meanwhile such a leader shows the rollout
// without its nodes.
func (c *Chains) open(work func(context.Context, *run) error) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		was, err := c.take(ctx, r)
		if err != nil {
			return err
		}
		defer func() {
			if changed := r.State.since(was); changed != nil {
				r.Apply(changed)
			}
		}()
		return work(ctx, r)
	}
}

// take gives the state its members, and returns them as stored in rows; nil: not in rows yet.
func (c *Chains) take(ctx context.Context, r *run) (rows []broker.RolloutMember, err error) {
	s := &r.State
	if s.Carried != nil {
		s.Members, s.Carried = s.Carried, nil
		return nil, nil
	}
	if rows, err = c.Nodes.Members(ctx, r.ID); err != nil {
		return nil, storeFault(err)
	}
	if err := s.read(rows, decodeMember); err != nil {
		return nil, chain.Fail(chain.StateAmbiguity, "the members of rollout %s cannot be read: %v (upgrade the broker)", r.ID,
			err).With("state_unreadable", nil)
	}
	if len(rows) == 0 || rows[len(rows)-1].Place != len(rows)-1 { // each is saved by its place
		return nil, chain.Fail(chain.StateAmbiguity, "some members of rollout %s are not recorded", r.ID).With("members_missing", nil)
	}
	return rows, nil
}

// decodeMember decodes a member strictly, as an engine decodes a state: a partly decoded member
// would lose fields at the next save.
func decodeMember(raw []byte, m *Member) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(m)
}

func (s *Rollout) read(rows []broker.RolloutMember, decode func([]byte, *Member) error) error {
	s.Members = make([]Member, len(rows))
	for i, row := range rows {
		if err := decode(row.Member, &s.Members[i]); err != nil {
			return err
		}
	}
	return nil
}

// since are the members that differ from their rows.
func (s *Rollout) since(was []broker.RolloutMember) (changed broker.SaveMembers) {
	for i, m := range s.Members {
		raw, err := json.Marshal(m)
		if err != nil {
			panic(err) // only texts and numbers
		}
		if i >= len(was) || !bytes.Equal(raw, was[i].Member) {
			changed = append(changed, broker.RolloutMember{Place: i, Member: raw})
		}
	}
	return changed
}

// Load reads a rollout for display, as far as this version knows its fields. members reads its
// rows.
func Load(
	ctx context.Context, members func(ctx context.Context, rollout string) ([]broker.RolloutMember, error), r chain.Record,
) (Rollout, error) {
	s := Parse(r.State)
	if s.Carried != nil {
		s.Members = s.Carried
		return s, nil
	}
	rows, err := members(ctx, r.ID)
	if err != nil {
		return s, err
	}
	_ = s.read(rows, func(raw []byte, m *Member) error { _ = json.Unmarshal(raw, m); return nil }) // unknown fields are ignored
	return s, nil
}
