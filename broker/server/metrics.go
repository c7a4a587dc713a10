package server

import (
	"bufio"
	"bytes"
	"context"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/singleflight"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/expiry"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/taskcatalog"
)

// metrics are what /metrics serves: docs/reference/metrics.md.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	results  *prometheus.CounterVec
	refusals *prometheus.CounterVec

	operations *operationCounts
}

func newMetrics(
	db *store.DB, authority *trust.Authority, ends expiry.Sources, unwritable func() error, version, eventRelay string,
) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hostler_http_request_seconds", Help: "Time to an answer in seconds; tasks/wait is held for up to 50 s.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30, 60},
		}, []string{"listener", "route", "status"}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hostler_task_results_total", Help: "Task results that this broker accepted from nodes.",
		}, []string{"type", "outcome"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hostler_node_refusals_total",
			Help: "Requests to the agents' listener that this broker refused; route is connect if the connection was refused before a request.",
		}, []string{"route", "code"}),
		operations: newOperationCounts(),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "hostler_build_info", Help: "Version of the running broker; the value is 1.",
		ConstLabels: prometheus.Labels{"version": version, "store": db.Engine()},
	})
	build.Set(1)
	// All series begin at 0, because a new series would show no increase.
	for _, of := range taskcatalog.All() {
		for _, o := range []taskcatalog.Outcome{
			taskcatalog.OutcomeSucceeded, taskcatalog.OutcomeFailed, taskcatalog.OutcomeRefused,
			taskcatalog.OutcomeInterrupted, taskcatalog.OutcomeCanceled,
		} {
			m.results.WithLabelValues(of.Name, string(o))
		}
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.requests, m.results, m.refusals, build, &inventory{db: db, trust: authority, unwritable: unwritable, eventRelay: eventRelay},
		&turnovers{db: db}, &reservations{db: db}, &maintenances{db: db}, m.operations, &liveOperations{db: db},
		&expiries{sources: ends},
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "hostler_store_statements_total", Help: "SQL statements that this broker sent to its database.",
		}, func() float64 { return float64(db.Statements()) }))
	return m
}

// ended counts a result.
func (m *metrics) ended(t broker.Task) {
	m.results.WithLabelValues(t.Type, string(t.Outcome)).Inc()
}

// refused counts a refusal.
func (m *metrics) refused(route, code string) {
	m.refusals.WithLabelValues(route, code).Inc()
}

// handler gives all concurrent scrapes one text, so that neither many scrapers nor a slow reader
// costs the database and memory more than once.
func (m *metrics) handler() http.Handler {
	gather := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true})
	var group singleflight.Group
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		shared, _, _ := group.Do("", func() (any, error) {
			text := &exposition{header: http.Header{}, status: http.StatusOK}
			gather.ServeHTTP(text, new(http.Request)) // a plain request asks for the text format
			return text, nil
		})
		text := shared.(*exposition)
		maps.Copy(w.Header(), text.header)
		w.WriteHeader(text.status)
		_, _ = w.Write(text.body.Bytes())
	})
}

// exposition is the answer to a scrape.
type exposition struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (e *exposition) Header() http.Header         { return e.header }
func (e *exposition) WriteHeader(status int)      { e.status = status }
func (e *exposition) Write(b []byte) (int, error) { return e.body.Write(b) }

func (m *metrics) observe(listener, route string, status int, took time.Duration) {
	m.requests.WithLabelValues(listener, route, strconv.Itoa(status)).Observe(took.Seconds())
}

// countPolls registers the gauge of waiting polls.
func (m *metrics) countPolls(waiting func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "hostler_waiting_polls", Help: "Polls of nodes that are waiting at this broker.",
	}, func() float64 { return float64(waiting()) }))
}

// inventory counts the store's content at each scrape.
type inventory struct {
	db         *store.DB
	trust      *trust.Authority
	unwritable func() error // why the store cannot be written; nil: it can
	eventRelay string       // the relay of events; empty: none
}

var (
	nodesDesc    = prometheus.NewDesc("hostler_nodes", "Nodes by site, SKU and availability.", []string{"site", "sku", "availability"}, nil)
	statusesDesc = prometheus.NewDesc("hostler_node_status", "Nodes by status.", []string{"status"}, nil)
	tasksDesc    = prometheus.NewDesc("hostler_tasks", "Tasks that have not ended, by status.", []string{"status"}, nil)
	trustDesc    = prometheus.NewDesc("hostler_trust_version", "Version of the trust bundle in force.", nil, nil)
	upDesc       = prometheus.NewDesc("hostler_store_up", "1 while the store answers and can be written.", nil, nil)

	silentDesc = prometheus.NewDesc("hostler_silent_nodes",
		"Active and offline nodes without contact for more than three minutes, by status; active ones are those that a guard keeps from being marked offline.", []string{"status"}, nil)
	leftAloneDesc = prometheus.NewDesc("hostler_turnovers_not_begun",
		"Nodes whose tenant left, or whose certificate ran out or fell below the policy, more than an hour ago and for which no turnover is under way.", nil, nil)
	failedReleasesDesc = prometheus.NewDesc("hostler_releases_failed",
		"Allocations whose release failed; they hold their nodes until somebody goes on.", nil, nil)
	unprovisionableDesc = prometheus.NewDesc("hostler_nodes_provisioning_failing",
		"Nodes that are held because they could not be provisioned again and again.", nil, nil)
	judgedDesc = prometheus.NewDesc("hostler_availability_age_seconds",
		"Time since a broker last judged the availability of all nodes, in seconds.", nil, nil)
	silentSitesDesc = prometheus.NewDesc("hostler_silent_sites", "Sites with silent nodes of which no node makes contact.", nil, nil)
	heldDesc        = prometheus.NewDesc("hostler_held_back", "Work that a guard stopped until an operator acts, by kind.",
		[]string{"what"}, nil)
	restoreHoldDesc = prometheus.NewDesc("hostler_restore_hold", "1 while the database is restored from a backup and not released yet.",
		nil, nil)
	frozenAllDesc   = prometheus.NewDesc("hostler_frozen", "1 while a freeze of all sites is in force.", nil, nil)
	frozenSitesDesc = prometheus.NewDesc("hostler_frozen_sites", "Sites with a freeze of their own.", nil, nil)
	unreachableDesc = prometheus.NewDesc("hostler_unreachable_sites", "Sites whose MAAS or secrets do not answer.", nil, nil)
	keysDesc        = prometheus.NewDesc("hostler_maas_keys_refused", "Sites whose MAAS refused the site's API key at the last check.", nil,
		nil)
	keysAskedDesc = prometheus.NewDesc("hostler_maas_keys_checked_timestamp_seconds",
		"Time of the oldest last check of a site's MAAS API key, over all sites, in Unix seconds.", nil, nil)
	runsDesc = prometheus.NewDesc("hostler_runs", "Runs that have not ended, by kind, status, and failure class of a stopped run.",
		[]string{"kind", "status", "class"}, nil)
	unplacedDesc = prometheus.NewDesc("hostler_outbox_events", "Events that were recorded and are not in the feed yet.", nil, nil)
	lagDesc      = prometheus.NewDesc("hostler_outbox_lag_seconds",
		"How long the oldest event that is not in the feed yet has waited, in seconds.", nil, nil)
	webhooksDesc = prometheus.NewDesc("hostler_webhooks", "Webhooks of projects, by state.", []string{"state"}, nil)
	relayLagDesc = prometheus.NewDesc("hostler_events_relay_lag_seconds",
		"How long the oldest event that NATS does not have has waited, in seconds; 0 without NATS.", nil, nil)
)

// place is where and what the nodes of a series are.
type place struct{ site, sku string }

func byPlace(counts []store.AvailabilityCount) map[place]map[broker.Availability]int {
	out := map[place]map[broker.Availability]int{}
	for _, c := range counts {
		at := place{c.Site, c.SKU}
		if out[at] == nil {
			out[at] = map[broker.Availability]int{}
		}
		out[at][c.Word] = c.Nodes
	}
	return out
}

// Describe implements prometheus.Collector.
func (i *inventory) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		nodesDesc, statusesDesc, tasksDesc, trustDesc, upDesc, restoreHoldDesc, frozenAllDesc, frozenSitesDesc,
		unreachableDesc, keysDesc, keysAskedDesc, runsDesc, unplacedDesc, lagDesc, silentDesc, silentSitesDesc, heldDesc, leftAloneDesc,
		failedReleasesDesc, unprovisionableDesc, relayLagDesc, webhooksDesc,
		judgedDesc,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector. If the store does not answer, the counts are missing but
// the scrape succeeds.
func (i *inventory) Collect(out chan<- prometheus.Metric) {
	ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(trustDesc, float64(i.trust.Version()))
	nodes, err := i.db.CountNodes(ctx)
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	tasks, err := i.db.CountOpenTasks(ctx, nil)
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	seen, err := i.db.Gauges(ctx)
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	behind, err := i.behind(ctx)
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	hooks, err := i.db.CountWebhooks(ctx)
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	words, err := i.db.CountAvailability(ctx, nil)
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	gauge(upDesc, oneIf(i.unwritable() == nil))
	gauge(restoreHoldDesc, oneIf(seen.Restored))
	gauge(frozenAllDesc, oneIf(seen.FrozenAll))
	gauge(frozenSitesDesc, float64(seen.FrozenSites))
	gauge(unreachableDesc, float64(seen.Unreachable))
	gauge(keysDesc, float64(seen.KeysRefused))
	if !seen.KeysAsked.IsZero() {
		gauge(keysAskedDesc, float64(seen.KeysAsked.Unix()))
	}
	gauge(unplacedDesc, float64(seen.Unplaced))
	gauge(lagDesc, seen.Lag.Seconds())
	gauge(relayLagDesc, behind.Age(i.db.Now()).Seconds())
	for _, s := range broker.WebhookStates {
		gauge(webhooksDesc, float64(hooks.By[s]), string(s))
	}
	gauge(silentDesc, float64(seen.SilentActive), string(broker.Active))
	gauge(silentDesc, float64(seen.SilentOffline), string(broker.Offline))
	gauge(silentSitesDesc, float64(seen.SilentSites))
	gauge(leftAloneDesc, float64(seen.LeftAlone))
	gauge(failedReleasesDesc, float64(seen.FailedReleases))
	gauge(unprovisionableDesc, float64(seen.Unprovisionable))
	gauge(judgedDesc, seen.AvailabilityAge.Seconds())
	for what, n := range seen.Held {
		gauge(heldDesc, float64(n), what)
	}
	for _, r := range seen.Runs {
		gauge(runsDesc, float64(r.Runs), r.Kind, r.Status, r.Class)
	}
	for _, s := range broker.NodeStatuses {
		gauge(statusesDesc, float64(nodes[s]), string(s))
	}
	for place, counts := range byPlace(words) {
		for _, word := range broker.Availabilities { // a word without nodes is zero: a series that ends is read as its last value
			gauge(nodesDesc, float64(counts[word]), place.site, place.sku, string(word))
		}
	}
	for _, s := range []broker.TaskStatus{broker.TaskQueued, broker.TaskDispatched} {
		gauge(tasksDesc, float64(tasks[s]), string(s))
	}
}

// behind is what the relay of events has not passed on.
func (i *inventory) behind(ctx context.Context) (store.RelayLag, error) {
	if i.eventRelay == "" {
		return store.RelayLag{}, nil
	}
	return i.db.RelayLag(ctx, i.eventRelay)
}

func oneIf(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// measured observes the answers to nodes. The inner mux sets the pattern in the request.
func (m *metrics) measured(next http.Handler, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := now()
		seen := &status{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(seen, r)
		if seen.taken {
			return // the new owner of the connection observes the answer
		}
		route := r.Pattern
		if route == "" {
			route = "none"
		}
		m.observe("agents", route, seen.code, now().Sub(begun))
	})
}

// status records the status of an answer.
type status struct {
	http.ResponseWriter
	code  int
	taken bool // the connection was hijacked
}

// Hijack implements http.Hijacker.
func (s *status) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(s.ResponseWriter).Hijack()
	s.taken = err == nil
	return conn, rw, err
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets deadlines and flushes reach the underlying writer.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
