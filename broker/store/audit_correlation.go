package store

import "context"

type correlationKey struct{}

// WithCorrelation sets the correlation id of every audit row that is written with the context and
// has no correlation id of its own.
func WithCorrelation(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlationKey{}, id)
}

type reasonKey struct{}

// WithReason sets the operator's reason in every audit row that is written with the context and has
// no reason of its own.
func WithReason(ctx context.Context, reason string) context.Context {
	return context.WithValue(ctx, reasonKey{}, reason)
}

func reasonOf(ctx context.Context) string {
	reason, _ := ctx.Value(reasonKey{}).(string)
	return reason
}

func correlationOf(ctx context.Context) string {
	id, _ := ctx.Value(correlationKey{}).(string)
	return id
}
