package servertest

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
)

// Stream is an open stream of events.
type Stream struct {
	res   *http.Response
	lines chan string // closed at the end
}

// Events opens the stream of events; query may begin with ?.
func (b *Broker) Events(t testing.TB, token, query string) *Stream {
	t.Helper()
	return b.follow(t, token, "/events"+query)
}

// ProjectEvents opens the stream of a project's events; query may begin with ?.
func (b *Broker) ProjectEvents(t testing.TB, token, project, query string) *Stream {
	t.Helper()
	return b.follow(t, token, "/projects/"+project+"/events"+query)
}

// Logs opens the stream of the log at the path of an operation; query may begin with &.
func (b *Broker) Logs(t testing.TB, token, path, query string) *Stream {
	t.Helper()
	return b.follow(t, token, path+"/logs?follow=true"+query)
}

func (b *Broker) follow(t testing.TB, token, path string) *Stream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.OperatorURL()+api.Path(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != api.EventStream {
		t.Fatalf("GET %s: %s %s", path, res.Status, res.Header.Get("Content-Type"))
	}
	s := &Stream{res: res, lines: make(chan string, 10_000)}
	t.Cleanup(s.Close)
	go func() {
		defer close(s.lines)
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	return s
}

// Next is the next event; false: the stream has ended.
func (s *Stream) Next(t testing.TB) (e api.Event, open bool) {
	t.Helper()
	data, open := s.Data(t)
	if open {
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("an event is %q: %v", data, err)
		}
	}
	return e, open
}

// Data is the data of the next event, as it was sent; false: the stream has ended.
func (s *Stream) Data(t testing.TB) (data string, open bool) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case line, open := <-s.lines:
			if !open {
				return "", false
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				return data, true
			}
		case <-late:
			t.Fatal("waited in vain for an event")
		}
	}
}

// Close ends the stream.
func (s *Stream) Close() { _ = s.res.Body.Close() }
