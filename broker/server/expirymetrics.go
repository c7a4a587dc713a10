package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/expiry"
	"github.com/hostler/hostler/broker/secrets"
)

// expiry lists everything with an end that this broker depends on.
func (s *Server) expiry() expiry.Sources {
	of := expiry.Sources{Keys: s.trust.Expiries, Tokens: s.db.OperatorTokens, Now: s.c.Now}
	if vault, ok := s.secrets.(*secrets.Vault); ok {
		of.Login = vault.Login
	}
	return of
}

// expiries exports the same list as metrics: of each kind the first to end.
type expiries struct {
	sources expiry.Sources

	mu   sync.Mutex
	at   time.Time
	last []expiry.Item
}

// expiriesEvery is how often a Vault is asked, however many scrapes there are.
const expiriesEvery = time.Minute

var (
	expiresDesc = prometheus.NewDesc("hostler_expires_timestamp_seconds",
		"When the first key, certificate, token or login of a kind expires, in Unix seconds; a kind without an end is absent.",
		[]string{"what"}, nil)
	expiringDesc = prometheus.NewDesc("hostler_expiring",
		"Number of keys, certificates, tokens and logins that are due for renewal or have expired, by kind.", []string{"what"}, nil)
)

// Describe implements prometheus.Collector.
func (e *expiries) Describe(out chan<- *prometheus.Desc) {
	out <- expiresDesc
	out <- expiringDesc
}

// Collect implements prometheus.Collector. If the store does not answer, these figures are missing
// but the scrape succeeds; hostler_store_up reports the failure.
func (e *expiries) Collect(out chan<- prometheus.Metric) {
	items, err := e.items()
	if err != nil {
		return
	}
	first, near := map[string]time.Time{}, map[string]int{}
	for _, what := range expiry.ItemKinds() {
		near[what] = 0
	}
	for _, i := range items { // sorted by end
		if _, seen := first[i.What]; !seen && !i.At.IsZero() {
			first[i.What] = i.At
		}
		if i.Near(e.sources.Now()) {
			near[i.What]++
		}
	}
	for what, at := range first {
		out <- prometheus.MustNewConstMetric(expiresDesc, prometheus.GaugeValue, float64(at.Unix()), what)
	}
	for what, n := range near {
		out <- prometheus.MustNewConstMetric(expiringDesc, prometheus.GaugeValue, float64(n), what)
	}
}

func (e *expiries) items() ([]expiry.Item, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.sources.Now(); e.at.IsZero() || broker.Elapsed(now, e.at) >= expiriesEvery {
		ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		items, err := e.sources.Items(ctx)
		if err != nil {
			return nil, err
		}
		e.at, e.last = now, items
	}
	return e.last, nil
}
