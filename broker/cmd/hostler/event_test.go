package main

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
)

// endsOn cancels a command when the command's output holds a word.
type endsOn struct {
	bytes.Buffer

	word string
	end  context.CancelFunc
}

func (e *endsOn) Write(p []byte) (int, error) {
	n, err := e.Buffer.Write(p)
	if strings.Contains(e.String(), e.word) {
		e.end()
	}
	return n, err
}

func TestCtrlCIsTheNormalEndOfFollowingEvents(t *testing.T) {
	b := newFakeBroker(t)
	b.answer("GET /events", http.StatusOK, "id: 7\n"+`data: {"specversion":"1.0","id":"7","source":"hostler/broker","type":"site.freeze","subject":"site/*","time":"2026-03-01T11:00:01Z","data":{}}`+"\n\n")
	dir := t.TempDir()
	if err := b.writeClient(dir); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &endsOn{word: "site.freeze", end: cancel}
	var errs bytes.Buffer
	s := nowhere(nil, &errs)
	s.out = out
	if got := run(ctx, []string{"--config", dir + "/client.yaml", "events", "--follow"}, s); got != exitDone || strings.Contains(errs.String(), "error:") {
		t.Errorf("status %d, %q", got, errs.String())
	}
}
