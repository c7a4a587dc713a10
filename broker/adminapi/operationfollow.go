package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/store"
)

// Bounds of a stream of a log. A stream that reaches one ends, and its reader goes on after the last row.
const (
	longestLog  = time.Hour
	mostLogSize = 16 << 20 // bytes
)

// logStream writes the log of an operation to one reader: rows as soon as an attempt has ended, the steps that
// nodes come to, and the end.
type logStream struct {
	*API
	eventStream
	id     string
	in     OperationLogInput
	events store.OutboxFilter // about the operation
	line   func(broker.OperationStep) any
	out    bytes.Buffer // to send
	sent   int
}

// followLog answers with the log of an operation, from the row after the cursor on. The cursor is checked before
// the status is sent. Codes: cursor_invalid, too_many_readers.
func (a *API) followLog(
	ctx context.Context, o broker.Operation, in OperationLogInput, line func(broker.OperationStep) any, leave func(),
) (*huma.StreamResponse, error) {
	s := logStream{API: a, id: o.ID, in: in, line: line}
	s.events = store.OutboxFilter{Subject: "operation/" + o.ID, ProjectID: o.ProjectID}
	if in.Last != "" {
		s.in.Cursor = in.Last
	}
	var err error
	if s.events.After, err = a.c.Events.Newest(ctx); err == nil { // before the rows, so that nothing falls between
		_, _, err = a.rows(ctx, o, s.in)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer leave()
		s.eventStream = begins(hc)
		ctx, end := a.untilLeaving(ctx)
		defer end()
		if err := s.run(ctx); err != nil && ctx.Err() == nil {
			a.abortStream(err)
		}
	}}, nil
}

// run writes until the operation has ended, or the reader, the token or the broker leaves.
func (s *logStream) run(ctx context.Context) error {
	var page []store.OutboxEvent
	for begun := s.c.Now(); ; {
		o, err := s.c.DB.Operation(ctx, s.id) // before the rows: one that has ended has them all
		if err != nil {
			return err
		}
		if err := s.progress(page); err != nil {
			return err
		}
		if taken, err := s.rowsOf(ctx, o); err != nil || !taken {
			return err
		}
		if o.Status.Ended() {
			end := api.OperationEnd{Status: string(o.Status), Code: o.Code, Attempt: o.Attempt}
			return errors.Join(s.tell("", api.OperationLogEvent[any]{End: &end}), s.flush())
		}
		if s.sent > mostLogSize || s.c.Now().Sub(begun) >= longestLog {
			return nil
		}
		page, s.events.After, err = s.c.Events.Next(ctx, s.events, keepAlive)
		if err != nil {
			return err
		}
	}
}

// progress writes the steps that nodes came to, and a sign of life.
func (s *logStream) progress(page []store.OutboxEvent) error {
	for _, e := range page {
		if e.Type != operation.ProgressEvent {
			continue
		}
		p, err := outbox.OperationProgress(e.Data)
		if err != nil {
			return err
		}
		if err := s.tell("", api.OperationLogEvent[any]{Progress: &p}); err != nil {
			return err
		}
	}
	s.out.WriteString(": still here\n\n")
	return s.flush()
}

// rowsOf writes the rows after the cursor; false: the reader has had as much as a stream may have.
func (s *logStream) rowsOf(ctx context.Context, o broker.Operation) (all bool, err error) {
	for s.sent <= mostLogSize {
		rows, next, err := s.rows(ctx, o, s.in)
		if err != nil {
			return false, err
		}
		for _, r := range rows {
			line, id := s.line(r), rowID(placeOf(r))
			if err := s.tell(id, api.OperationLogEvent[any]{Line: &line}); err != nil {
				return false, err
			}
			s.in.Cursor = id
		}
		if err := s.flush(); err != nil {
			return false, err
		}
		if next == "" {
			return true, nil
		}
	}
	return false, nil
}

// tell adds an event to what is sent next; its id is a cursor. What a node said stands in it as JSON, on one line.
func (s *logStream) tell(id string, e api.OperationLogEvent[any]) error {
	data, err := json.Marshal(e)
	if id != "" {
		fmt.Fprintf(&s.out, "id: %s\n", id)
	}
	fmt.Fprintf(&s.out, "data: %s\n\n", data)
	return err
}

func (s *logStream) flush() error {
	s.sent += s.out.Len()
	err := s.send(s.out.Bytes())
	s.out.Reset()
	return err
}

// followable makes a route of two methods: one with a JSON answer, and one that writes server-sent events to
// whoever follows.
func followable[I interface{ follows() bool }, O any](
	page func(*API, context.Context, *I) (*O, error), follow func(*API, context.Context, *I) (*huma.StreamResponse, error),
) func(*API, huma.API, huma.Operation) {
	return func(a *API, h huma.API, op huma.Operation) {
		declareStream(&op, api.EventStream)
		schema := h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[O](), true, "")
		op.Responses["200"].Content["application/json"] = &huma.MediaType{Schema: schema}
		huma.Register(h, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
			if (*in).follows() {
				return callHandler(a, ctx, in, follow)
			}
			out, err := callHandler(a, ctx, in, page)
			if err != nil {
				return nil, err
			}
			return &huma.StreamResponse{Body: func(hc huma.Context) {
				hc.SetHeader("Content-Type", "application/json")
				if list, ok := any(out).(interface{ Tell([]api.Hold) }); ok {
					list.Tell(callerOf(ctx).frozen)
				}
				if err := h.Marshal(hc.BodyWriter(), "application/json", out); err != nil {
					a.abortStream(err)
				}
			}}, nil
		})
	}
}
