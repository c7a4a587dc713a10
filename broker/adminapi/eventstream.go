package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/store"
)

// stream writes pages until the reader, the token or the broker leaves. The reader must see a
// returned error as a broken stream.
func (a *API) stream(ctx context.Context, s eventStream, f store.OutboxFilter, page []store.OutboxEvent, after int64, follow bool) error {
	ctx, end := a.untilLeaving(ctx)
	defer end()
	for {
		text, err := s.frame(page, after)
		if err != nil {
			return err
		}
		if s.send(text) != nil {
			return nil // the reader has left or is cut off
		}
		if !follow && len(page) == 0 {
			return nil
		}
		f.After = after
		hold := keepAlive
		if !follow {
			hold = 0
		}
		if page, after, err = a.c.Events.Next(ctx, f, hold); err != nil {
			if ctx.Err() != nil && follow {
				return nil
			}
			return err
		}
	}
}

// untilLeaving returns a context that ends when the broker stops.
func (a *API) untilLeaving(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	go func() {
		select {
		case <-a.leaving:
			end()
		case <-ctx.Done():
		}
	}()
	return ctx, end
}

// eventStream writes to one reader.
type eventStream struct {
	w       io.Writer
	control *http.ResponseController
	form    eventForm
}

// eventForm is how a reader sees events and positions.
type eventForm interface {
	// event encodes an event on one line.
	event(e store.OutboxEvent) (id string, line []byte, err error)
	// upTo is the id of the position that the stream has reached; empty: the reader knows it.
	upTo(position int64) (id string)
}

// frame encodes a page with the position of the stream. Without events the frame is a sign of life.
func (s *eventStream) frame(page []store.OutboxEvent, upTo int64) ([]byte, error) {
	var out bytes.Buffer
	for _, e := range page {
		id, line, err := s.form.event(e)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "id: %s\ndata: %s\n\n", id, line)
	}
	if id := s.form.upTo(upTo); id != "" {
		fmt.Fprintf(&out, "id: %s\n", id)
	}
	out.WriteString(": still here\n\n")
	return out.Bytes(), nil
}

// platformForm is the form of events for readers of the platform.
type platformForm struct {
	lastSent int64 // the last id that was sent; -1: none, so that the reader learns the position at once
}

func (f *platformForm) event(e store.OutboxEvent) (id string, line []byte, err error) {
	ce, err := outbox.CloudEvent(e)
	if err != nil {
		return "", nil, err
	}
	f.lastSent = e.Position
	line, err = json.Marshal(ce)
	return ce.ID(), line, err
}

func (f *platformForm) upTo(position int64) string {
	if position <= f.lastSent {
		return ""
	}
	f.lastSent = position
	return strconv.FormatInt(position, 10)
}

// begins answers a stream's request, and returns where its text goes.
func begins(hc huma.Context) eventStream {
	hc.SetHeader("Content-Type", api.EventStream)
	hc.SetHeader("X-Accel-Buffering", "no") // for proxies that would otherwise buffer the stream
	_, w := humago.Unwrap(hc)
	return eventStream{w: w, control: http.NewResponseController(w)}
}

// send sends text within takeLimit, or fails.
func (s *eventStream) send(text []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(takeLimit)); err != nil { // by the machine's clock
		return err
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	if err := s.control.Flush(); err != nil {
		return err
	}
	return s.control.SetWriteDeadline(time.Time{}) // over HTTP/2 an expired deadline ends the stream, whether or not anything is written
}
