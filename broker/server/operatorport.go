package server

import (
	"crypto/tls"
	"net/http"
	"time"

	"github.com/hostler/hostler/broker/bodies"
)

// operatorServer serves the operators' listener.
func (s *Server) operatorServer() *http.Server {
	mux := http.NewServeMux()
	mux.Handle("/", s.admin.Handler())
	bodies.Get(mux, "/metrics", s.metrics.handler())
	bodies.Get(mux, "/healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") }))
	bodies.Get(mux, "/readyz", http.HandlerFunc(s.readyz))
	return &http.Server{
		Handler:           s.rooms.requests.Requests(bodies.InTime(bodies.OnlyText(mux)), showsToken),
		HTTP2:             &overHTTP2,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.trust.ServerCertificate, Time: s.c.Now},
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          s.noise[0].logger(),
	}
}
