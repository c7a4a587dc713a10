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
