package main

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// stopsWatching cancels a command as soon as it has drawn a run.
type stopsWatching struct {
	bytes.Buffer
	stop context.CancelFunc
}

func (s *stopsWatching) Write(p []byte) (int, error) {
	s.stop()
	return s.Buffer.Write(p)
}

// Whoever stops watching is shown only commands that the kind of the run takes.
func TestAnInterruptedWatchNamesCommandsThatTheRunTakes(t *testing.T) {
	b := newFakeBroker(t)
	dir := t.TempDir()
	if err := b.writeClient(dir); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{
		"node.later/x":        "(it continues: hostler run watch r-1)",
		"agent.rollout":       "(it continues: hostler run watch r-1, hostler help rollout)",
		"agent.upgrade/major": "(it continues: hostler run watch r-1, hostler run cancel r-1)",
		"node.decommission/x": "(it continues: hostler run watch r-1, hostler run cancel r-1)",
	} {
		state := `"status":"running","current_stage":"s","direction":"forward","current_attempt":1,"requested_at":"2026-02-28T12:00:00Z","stages":[],"events":[]}`
		b.answer("GET /runs/r-1", http.StatusOK, `{"id":"r-1","kind":"`+kind+`","subject":"x",`+state)
		b.answer("GET /decommissions/r-1", http.StatusOK, `{"id":"r-1","hostname":"x",`+state)
		ctx, stop := context.WithCancel(t.Context())
		said := &stopsWatching{stop: stop}
		s := nowhere(new(bytes.Buffer), &said.Buffer)
		s.err = said
		s.getenv = func(name string) string {
			return map[string]string{"HOSTLER_CONFIG": filepath.Join(dir, "client.yaml"), "HOME": dir}[name]
		}
		if got := run(ctx, []string{"run", "watch", "r-1"}, s); got != exitFailed || !strings.Contains(said.String(), "error: interrupted: ") || !strings.Contains(said.String(), want) {
			t.Errorf("%s: status %d, and says %q; want %q", kind, got, said.String(), want)
		}
		stop()
	}
}
