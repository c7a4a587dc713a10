package chain

import "context"

// Within makes a stage over S from a stage over T; part returns the T inside an S. Chains share
// common stages this way: a reimage uses the end of an onboarding within a turnover.
func Within[S, T any](s Stage[T], part func(*S) *T) Stage[S] {
	out := Stage[S]{Name: s.Name, Pivot: s.Pivot, Optional: s.Optional, Waivable: s.Waivable, Then: s.Then}
	if s.Done != nil {
		out.Done = func(ctx context.Context, r *Run[S]) (bool, error) {
			inner, back := within(r, part)
			defer back()
			return s.Done(ctx, inner)
		}
	}
	out.Do, out.Undo = doWithin(s.Do, part), doWithin(s.Undo, part)
	if s.Retry != nil {
		out.Retry = func(state S) Retry { return s.Retry(*part(&state)) }
	}
	if s.Limit != nil {
		out.Limit = func(state S) Limit { return s.Limit(*part(&state)) }
	}
	if s.About != nil {
		out.About = func(state S) About { return s.About(*part(&state)) }
	}
	for _, r := range s.Rescue {
		out.Rescue = append(out.Rescue, Within(r, part))
	}
	return out
}

// Part makes a function over S from a function over T, such as a chain's probe.
func Part[S, T any](do func(context.Context, *Run[T]) error, part func(*S) *T) func(context.Context, *Run[S]) error {
	return doWithin(do, part)
}

func doWithin[S, T any](do func(context.Context, *Run[T]) error, part func(*S) *T) func(context.Context, *Run[S]) error {
	if do == nil {
		return nil
	}
	return func(ctx context.Context, r *Run[S]) error {
		inner, back := within(r, part)
		defer back()
		return do(ctx, inner)
	}
}

// within is the run as a stage over T sees it. back copies the inner state back, also after a
// panic, so that the stage's changes are kept.
func within[S, T any](r *Run[S], part func(*S) *T) (inner *Run[T], back func()) {
	inner = &Run[T]{
		ID: r.ID, Site: r.Site, Batch: r.Batch, Subject: r.Subject, CorrelationID: r.CorrelationID,
		Stage: r.Stage, Attempt: r.Attempt, Spent: r.Spent, Undoing: r.Undoing, Restarting: r.Restarting, Adopted: r.Adopted,
		accepts:     r.accepts,
		RequestedBy: r.RequestedBy, RequestedAt: r.RequestedAt, EnteredAt: r.EnteredAt, Now: r.Now, LostAt: r.LostAt, Waived: r.Waived,
		Failure: r.Failure,
		State:   *part(&r.State), out: r.out, since: r.since, clock: r.clock,
	}
	return inner, func() { *part(&r.State) = inner.State }
}
