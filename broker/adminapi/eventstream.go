package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/store"
)

// stream writes pages until the reader, the token or the broker leaves. The reader must see a
// returned error as a broken stream.
func (a *API) stream(ctx context.Context, s eventStream, f store.OutboxFilter, page []store.OutboxEvent, after int64, follow bool) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-a.leaving:
			end()
		case <-ctx.Done():
		}
	}()
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

// eventStream writes to one reader.
type eventStream struct {
	w        io.Writer
	control  *http.ResponseController
	lastSent int64 // the last id that was sent; -1: none, so that the reader learns the position at once
}

// frame encodes a page with the position of the stream. Without events the frame is a sign of life.
func (s *eventStream) frame(page []store.OutboxEvent, upTo int64) ([]byte, error) {
	var out bytes.Buffer
	for _, e := range page {
		ce, err := outbox.CloudEvent(e)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(ce) // on one line
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "id: %d\ndata: %s\n\n", e.Position, raw)
		s.lastSent = e.Position
	}
	if upTo > s.lastSent {
		fmt.Fprintf(&out, "id: %d\n", upTo)
		s.lastSent = upTo
	}
	out.WriteString(": still here\n\n")
	return out.Bytes(), nil
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
