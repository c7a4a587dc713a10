package store

import "context"

type correlationKey struct{}

// WithCorrelation names the request in every audit row that is written with
// the context and names none itself.
func WithCorrelation(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlationKey{}, id)
}

func correlationOf(ctx context.Context) string {
	id, _ := ctx.Value(correlationKey{}).(string)
	return id
}
