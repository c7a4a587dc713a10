package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
)

// EventFilter narrows a stream of events; empty fields narrow nothing.
type EventFilter struct {
	After   string // id of an event; "0": from the oldest; empty: from now on
	Types   []string
	Subject string
	Project string // the events of this project instead of those of the platform; takes no types and no subject
	Follow  bool   // wait for more
	// Opened, unless nil, is called each time the broker has opened a stream, before the stream's
	// events. What Opened reads and what the stream brings have no gap between them. Errors of Opened
	// are treated as those of got, see Events.
	Opened func() error
}

const (
	maxEvent = 4 << 20
	silent   = time.Minute // a stream without a sign of life for this long is lost
)

// Events calls got with every event, in order. With Follow, Events resumes after the last event
// when the connection breaks, and gives up when the broker stays away for a minute. Each new reason
// for a missing connection goes to lost, and nil goes to lost when the connection is back; lost may
// be nil. An error of got ends the stream, and Events returns that error; if the error says that the
// broker is away, it counts as a broken connection. If the first stream is refused because there are
// too many (too_many_readers), Events returns at once.
func (c *Client) Events(ctx context.Context, f EventFilter, got func(api.Event) error, lost func(error)) error {
	if lost == nil {
		lost = func(error) {}
	}
	var away string // the last reason passed to lost; empty: connected
	gone := func(err error) {
		if err != nil && err.Error() != away {
			away = err.Error()
			lost(err)
		}
	}
	caller, ever := f.Opened, false
	f.Opened = func() error {
		ever = true
		if away != "" {
			away = ""
			lost(nil)
		}
		if caller == nil {
			return nil
		}
		return caller()
	}
	for {
		var mine error
		heard := func(e api.Event) error {
			err := got(e)
			if !absent(err) {
				mine = err
			}
			return err
		}
		var broke error
		err := c.retry(ctx, waitPatience, 0, func() (again bool, _ error) {
			opened, err := c.events(ctx, &f, heard)
			switch {
			case mine != nil, ctx.Err() != nil, err != nil && !absent(err), !f.Follow, !ever && broker.AsError(err).Code == "too_many_readers":
				return false, err
			case opened:
				broke = err // the next attempt starts with fresh patience
				return false, nil
			}
			gone(err)
			return true, err
		})
		switch {
		case mine != nil:
			return mine
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil || !f.Follow:
			return err
		}
		gone(broke)
		if err := sleep(ctx, c.opts.Backoff); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// events reads one stream to its end and records in f how far the stream has come. opened says that
// the broker opened a stream.
func (c *Client) events(ctx context.Context, f *EventFilter, got func(api.Event) error) (opened bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := time.AfterFunc(silent, cancel)
	defer alive.Stop()
	q := query("after", f.After, "subject", f.Subject)
	for _, t := range f.Types {
		q.Add("type", t)
	}
	if !f.Follow {
		q.Set("follow", "false")
	}
	path := "/events"
	if f.Project != "" {
		path = at("projects", f.Project, "events")
	}
	res, err := c.send(ctx, call{method: http.MethodGet, path: path, query: q}, http.NoBody)
	if err != nil {
		return false, err
	}
	defer func() { _ = res.Body.Close() }()
	if err := f.Opened(); err != nil {
		return false, err
	}
	err = readEvents(res.Body, func(id string, data []byte) error {
		alive.Reset(silent)
		if data != nil {
			var e api.Event
			if err := json.Unmarshal(data, &e); err != nil {
				return broker.Errorf(broker.Internal, "answer_malformed",
					"cannot read an event of %s: the event is not what this version of hostler expects (compare hostler version with hostler status)", c.opts.Broker)
			}
			if err := got(e); err != nil {
				return err
			}
		}
		if id != "" {
			f.After = id
		}
		return nil
	})
	if _, own := errors.AsType[*broker.Error](err); err != nil && !own {
		err = broker.Errorf(broker.Unavailable, "events_interrupted",
			"cannot read further events: the connection to %s broke (continue with --after %s)", c.opts.Broker, orNewest(f.After))
	}
	return true, err
}

func orNewest(after string) string {
	if after == "" {
		return "0"
	}
	return after
}

// readEvents reads server-sent events and calls each with the id and data of every event. A mere
// sign of life has neither.
func readEvents(r io.Reader, each func(id string, data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
	var id string
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			if err := each(id, data); err != nil {
				return err
			}
			id, data = "", nil
		case string(name) == "id":
			id = string(value)
		case string(name) == "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
	}
	return lines.Err()
}
