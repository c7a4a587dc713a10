package server

import (
	"cmp"
	"context"
	"log"
	"net"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	// noiseEvery is how often failed connections of one kind are logged.
	noiseEvery = 10 * time.Minute
	// maxNoisy is the number of networks told apart in that time.
	maxNoisy = 1024
	// flushEvery limits the counts of strangers that a crash loses.
	flushEvery = 5 * time.Second
)

// noisePrefixes are the beginnings of net/http's log lines that anybody can cause by connecting, up
// to the address if the line has one.
var noisePrefixes = []string{
	"http: TLS handshake error from ",
	"http2: server: error reading preface from client ",
	"timeout waiting for SETTINGS frames from ",
	"timeout waiting for PING response",
	"http2: server connection error from ",
	"http2: server closing client connection: ",
	"http2: received GOAWAY ",
}

// noiseLog is the error log of an http.Server. Lines that anybody can cause are written once per
// noiseEvery and counted in between; all other lines are written unchanged.
type noiseLog struct {
	log *zap.Logger
	now func() time.Time

	mu    sync.Mutex
	heard map[string]*noiseCount // by the line's beginning
}

type noiseCount struct {
	since    time.Time // when a line of this kind was last written
	times    int       // since then
	networks map[string]bool
	last     string
}

func newNoise(l *zap.Logger, now func() time.Time) *noiseLog {
	return &noiseLog{log: l, now: now, heard: map[string]*noiseCount{}}
}

// logger is the value of http.Server.ErrorLog.
func (n *noiseLog) logger() *log.Logger { return log.New(n, "", 0) }

// Write implements io.Writer for one line.
func (n *noiseLog) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	for _, kind := range noisePrefixes {
		if rest, ok := strings.CutPrefix(text, kind); ok {
			n.count(kind, rest, text)
			return len(line), nil
		}
	}
	n.log.Info(text)
	return len(line), nil
}

func (n *noiseLog) count(kind, rest, text string) {
	text = taskcatalog.Clean(text, 300)
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.heard[kind]
	if h == nil {
		n.heard[kind] = &noiseCount{since: n.now(), networks: map[string]bool{}}
		n.log.Info(text)
		return
	}
	h.times++
	h.last = text
	address, _, _ := strings.Cut(rest, ": ")
	host, _, err := net.SplitHostPort(address)
	if err == nil && len(h.networks) < maxNoisy {
		h.networks[store.NetworkOf(host)] = true
	}
}

// writeCounts writes the counts of the kinds that are due. A kind that was quiet for noiseEvery is
// written at once when it comes again.
func (n *noiseLog) writeCounts() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	for kind, h := range n.heard {
		if now.Sub(h.since) < noiseEvery {
			continue
		}
		if h.times == 0 {
			delete(n.heard, kind)
			continue
		}
		n.log.Info("connections failed", zap.String("kind", strings.TrimSuffix(strings.TrimSuffix(kind, " "), " from")),
			zap.Int("times", h.times),
			zap.Int("networks", len(h.networks)), zap.Time("since", h.since), zap.String("last", h.last))
		*h = noiseCount{since: now, networks: map[string]bool{}}
	}
}

// recordStrangers writes the counts of strangers until ctx ends, and then once more.
func (s *Server) recordStrangers(ctx context.Context) error {
	periodic.Work{
		Every: cmp.Or(s.c.Often, flushEvery), Log: s.c.Log, Cannot: "cannot record the number of refused strangers",
		Turn: func(ctx context.Context) error {
			for _, n := range s.noise {
				n.writeCounts()
			}
			return s.db.FlushStrangers(ctx)
		},
	}.Run(ctx)
	last, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer done()
	return s.db.FlushStrangers(last)
}

// auditStrangers puts the counts of all brokers into the audit log. Only the leader runs it.
func (s *Server) auditStrangers(ctx context.Context) {
	periodic.Work{
		Every: cmp.Or(s.c.Often, flushEvery), Turn: s.db.SummariseStrangers, Log: s.c.Log,
		Cannot: "cannot write the number of refused strangers to the audit log",
	}.Run(ctx)
}
