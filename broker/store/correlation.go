package store

import "context"

type correlationKey struct{}

// WithCorrelation names the request in every audit row that is written with
// the context and names none itself.
func WithCorrelation(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlationKey{}, id)
}

type reasonKey struct{}

// WithReason gives every audit row that is written with the context, and that
// says none itself, the reason that an operator gave.
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
