package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// TraceParent is a W3C trace context of version 00, as the broker wrote it; empty: there is none. What a request
// brings is read before, so that no stranger's text is kept.
type TraceParent string

// TraceID is the id of the trace; empty: there is none.
func (p TraceParent) TraceID() string {
	if parts := strings.Split(string(p), "-"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

// Below is the context of a span in the same trace, for what is to lie below that span.
func (p TraceParent) Below(span string) TraceParent {
	parts := strings.Split(string(p), "-")
	if len(parts) != 4 {
		return ""
	}
	parts[2] = span
	return TraceParent(strings.Join(parts, "-"))
}

// SpanOf is the id of the span of something with a name. It follows from the name, so that what lies below a span can
// refer to it before it is made, on another broker, and after a restart.
func SpanOf(name string) string {
	sum := sha256.Sum256([]byte("hostler span " + name))
	return hex.EncodeToString(sum[:8])
}

// Span is the span of the present attempt of an operation.
func (o Operation) Span() string { return SpanOf("operation/" + o.ID + "/" + strconv.Itoa(o.Attempt)) }

// Span is the span of a task.
func (k Task) Span() string { return SpanOf("task/" + k.ID) }
