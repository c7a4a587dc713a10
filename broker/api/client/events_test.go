package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
)

func framed(id int) string {
	return fmt.Sprintf("id: %d\ndata: {\"specversion\":\"1.0\",\"id\":\"%d\",\"type\":\"t\"}\n\n", id, id)
}

// TestAFollowerGoesOnWhereTheStreamBroke has a broker that says where it is, sends an event, breaks
// the connection, is away, comes back, and at last has forgotten the events.
func TestAFollowerGoesOnWhereTheStreamBroke(t *testing.T) {
	var asked []string
	answers := []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { _, _ = io.WriteString(w, "id: 6\n: still here\n\n") },
		func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, framed(7)+"id: 8\nda")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
		func(w http.ResponseWriter) { _, _ = io.WriteString(w, framed(9)+"id: 12\n: still here\n\n") },
		func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"status":409,"code":"events_forgotten","detail":"gone"}`)
		},
	}
	remote, calls := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := len(asked)
		asked = append(asked, r.URL.Query().Get("after"))
		answers[n](w)
	})
	var got []string
	var told []string
	err := remote.Events(context.Background(), EventFilter{Follow: true}, func(e api.Event) error {
		got = append(got, e.ID)
		return nil
	}, func(err error) {
		if err == nil {
			told = append(told, "back")
			return
		}
		told = append(told, broker.AsError(err).Code)
	})
	want(t, err, broker.Refused, "events_forgotten")
	if fmt.Sprint(asked) != "[ 6 7 7 7 12]" || fmt.Sprint(got) != "[7 9]" || calls.Load() != 6 {
		t.Errorf("it asked after %q, got %v in %d calls", asked, got, calls.Load())
	}
	if fmt.Sprint(told) != "[events_interrupted unexpected_answer unexpected_answer back]" {
		t.Errorf("what a follower is told while the broker is away: %v", told)
	}
}

func TestAFollowerWithoutAListenerForBreaksGoesOn(t *testing.T) {
	remote, calls := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("after") == "" {
			_, _ = io.WriteString(w, framed(1)+"id: 2\nda")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, framed(2))
	})
	enough := errors.New("enough")
	err := remote.Events(context.Background(), EventFilter{Follow: true}, func(e api.Event) error {
		if e.ID == "2" {
			return enough
		}
		return nil
	}, nil)
	if !errors.Is(err, enough) || calls.Load() != 2 {
		t.Errorf("%v in %d calls", err, calls.Load())
	}
}

func TestAStreamThatDoesNotFollowEndsOnce(t *testing.T) {
	ctx, none := context.Background(), func(error) {}
	remote, calls := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, framed(1)+framed(2))
	})
	full := errors.New("the disk is full")
	n := 0
	if err := remote.Events(ctx, EventFilter{}, func(api.Event) error { n++; return nil }, none); err != nil || n != 2 || calls.Load() != 1 {
		t.Errorf("%d events in %d calls, %v", n, calls.Load(), err)
	}
	if err := remote.Events(ctx, EventFilter{Follow: true}, func(api.Event) error { return full }, none); !errors.Is(err, full) || calls.Load() != 2 {
		t.Errorf("who cannot take it: %v after %d calls", err, calls.Load())
	}
	gone, stop := context.WithCancel(ctx)
	if err := remote.Events(gone, EventFilter{Follow: true}, func(api.Event) error { stop(); return nil }, none); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone: %v", err)
	}
	remote, _ = serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: "+strings.Repeat("x", maxEvent+1)+"\n\n")
	})
	want(t, remote.Events(ctx, EventFilter{}, func(api.Event) error { return nil }, none), broker.Unavailable, "events_interrupted")
}

// What is read when a stream opens, and its events, leave no gap. A broker that goes away meanwhile
// is a broken connection, and the next stream begins with another read.
func TestAStreamThatOpensIsReadFromThere(t *testing.T) {
	var asked []string
	remote, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("after"))
		_, _ = io.WriteString(w, framed(len(asked)))
	})
	away := broker.Errorf(broker.Unavailable, "broker_unreachable", "away")
	enough := errors.New("enough")
	opened := 0
	f := EventFilter{Follow: true, Opened: func() error {
		if opened++; opened == 1 {
			return away
		}
		return nil
	}}
	var got, told []string
	err := remote.Events(context.Background(), f, func(e api.Event) error {
		got = append(got, e.ID)
		switch len(got) {
		case 1:
			return away
		case 3:
			return enough
		}
		return nil
	}, func(err error) { told = append(told, Code(err)) })
	if !errors.Is(err, enough) || opened != 4 || fmt.Sprint(asked) != "[   3]" || fmt.Sprint(got) != "[2 3 4]" {
		t.Errorf("%v: %d streams after %q brought %q", err, opened, asked, got)
	}
	if fmt.Sprint(told) != "[broker_unreachable  broker_unreachable ]" {
		t.Errorf("a follower is told %q", told)
	}
	gone := broker.Errorf(broker.NotFound, "allocation_not_found", "gone")
	f.Opened = func() error { return gone }
	if err := remote.Events(context.Background(), f, nil, nil); !errors.Is(err, gone) {
		t.Errorf("what was asked for is gone: %v", err)
	}
}

// A reader for whom there is no place learns it at once, and one who had a place waits for it.
func TestAReaderWithoutAPlaceLearnsItAtOnce(t *testing.T) {
	n := 0
	full := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"status":429,"code":"too_many_readers","detail":"full"}`)
	}
	had := false
	remote, calls := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n++; had && n != 2 {
			_, _ = io.WriteString(w, framed(n))
			return
		}
		full(w)
	})
	want(t, remote.Events(context.Background(), EventFilter{Follow: true}, nil, nil), broker.TooMany, "too_many_readers")
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
	n, had = 0, true
	enough := errors.New("enough")
	err := remote.Events(context.Background(), EventFilter{Follow: true}, func(e api.Event) error {
		if e.ID == "3" {
			return enough
		}
		return nil
	}, nil)
	if !errors.Is(err, enough) || n != 3 {
		t.Errorf("%v after %d calls", err, n)
	}
}
