package server

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// readyz says whether requests can be answered now; most requests write.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, done := context.WithTimeout(r.Context(), 2*time.Second)
	defer done()
	switch {
	case s.draining.Load():
		answer(w, http.StatusServiceUnavailable, "stopping")
	case s.db.Ping(ctx) != nil:
		answer(w, http.StatusServiceUnavailable, "store unavailable")
	case s.writes.Trouble() != nil:
		answer(w, http.StatusServiceUnavailable, "store not writable")
	default:
		answer(w, http.StatusOK, "ready")
	}
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
