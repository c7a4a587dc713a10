package server

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// maxOperationNames bounds the operations that have series of their own. Further ones count as other.
const maxOperationNames = 100

const other = "other"

// operationCodes are the codes of failed operations that have series of their own, beside the codes of
// denials. A code may be a node's words: any other code counts as other.
var operationCodes = append(broker.OperationDenials(),
	string(taskcatalog.CodeStepFailed), string(taskcatalog.CodeStepUnsupported), string(taskcatalog.CodePlanInvalid),
	string(taskcatalog.CodeCapabilityMissing), string(taskcatalog.CodeCanceled), string(taskcatalog.CodeDeadlineExceeded),
	string(taskcatalog.CodeInterrupted), string(taskcatalog.CodeTaskExpired), broker.OperationTargetGone, broker.OperationIncomplete,
	"agent_silent", "outcome_unknown", "allocation_live", "node_status", "task_type_unsupported", broker.AgentOutdated,
)

// mintResults are the ends of a request for a credential.
const (
	mintMinted = "minted"
	mintDenied = "denied"
	mintFailed = "failed" // the broker could not make it
)

var (
	stepStatuses = []taskcatalog.StepStatus{
		taskcatalog.StepSucceeded, taskcatalog.StepFailed, taskcatalog.StepSkipped, taskcatalog.StepCanceled,
	}
	credentialTypes = secrets.CredentialTypes()
)

// operationCounts count what this broker saw of operations. No label names a tenant or a node.
type operationCounts struct {
	begun, retries, ended, steps, stepRetries, denials, mints *prometheus.CounterVec
	seconds, stepSeconds                                      *prometheus.HistogramVec

	mu    sync.Mutex
	names map[string]bool
}

func newOperationCounts() *operationCounts {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help, label string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: []float64{.1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600},
		}, []string{label})
	}
	c := &operationCounts{
		names:   map[string]bool{},
		begun:   counter("hostler_operations_begun_total", "Operations that this broker began, without retries.", "operation"),
		retries: counter("hostler_operation_retries_total", "Operations that were begun again after they had ended.", "operation"),
		ended: counter("hostler_operations_ended_total",
			"Attempts of operations that ended, by outcome and error code; code is other for rare codes.", "operation", "outcome", "code"),
		seconds: histogram("hostler_operation_seconds", "Time from the request of an attempt of an operation to its end in seconds.", "operation"),
		steps: counter("hostler_operation_steps_total", "Attempts of steps that nodes reported, without steps that an earlier task had completed.",
			"kind", "status"),
		stepRetries: counter("hostler_operation_step_retries_total", "Attempts of steps after the first in their task.", "kind"),
		stepSeconds: histogram("hostler_operation_step_seconds", "Time that an attempt of a step took on its node in seconds.", "kind"),
		denials:     counter("hostler_operation_denials_total", "Requests for operations that a policy denied, by error code.", "code"),
		mints: counter("hostler_credential_mints_total",
			"Requests of nodes for credentials by type; denied: the node may not have it; failed: the broker could not make it.",
			"credential", "result"),
	}
	// All series begin at 0, because a new series would show no increase.
	for _, k := range taskcatalog.StepKinds() {
		c.stepRetries.WithLabelValues(k.Name)
		for _, s := range stepStatuses {
			c.steps.WithLabelValues(k.Name, string(s))
		}
	}
	for _, code := range broker.OperationDenials() {
		c.denials.WithLabelValues(code)
	}
	for _, credential := range append([]string{other}, credentialTypes...) {
		for _, result := range []string{mintMinted, mintDenied, mintFailed} {
			c.mints.WithLabelValues(credential, result)
		}
	}
	return c
}

func (c *operationCounts) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		c.begun, c.retries, c.ended, c.seconds, c.steps, c.stepRetries, c.stepSeconds, c.denials, c.mints,
	}
}

// Describe implements prometheus.Collector.
func (c *operationCounts) Describe(out chan<- *prometheus.Desc) {
	for _, v := range c.collectors() {
		v.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *operationCounts) Collect(out chan<- prometheus.Metric) {
	for _, v := range c.collectors() {
		v.Collect(out)
	}
}

// name is the label of an operation: its type without the version.
func (c *operationCounts) name(operation string) string {
	name, _, _ := strings.Cut(operation, "@")
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.names[name] {
		if len(c.names) >= maxOperationNames {
			return other
		}
		c.names[name] = true
	}
	return name
}

// effects counts the effects of a saved change of a run.
func (c *operationCounts) effects(all []any, took time.Duration) {
	for _, e := range all {
		switch e := e.(type) {
		case broker.RequestOperation:
			c.begun.WithLabelValues(c.name(e.Operation.Operation)).Inc()
		case broker.RetryOperation:
			c.retries.WithLabelValues(c.name(e.Operation)).Inc()
		case broker.EndOperation:
			c.end(e.Operation, e.To, e.Code, took)
			for _, s := range e.Steps {
				c.step(s)
			}
		}
	}
}

func (c *operationCounts) end(operation string, to broker.OperationStatus, code string, took time.Duration) {
	if code != "" && !slices.Contains(operationCodes, code) {
		code = other
	}
	name := c.name(operation)
	c.ended.WithLabelValues(name, string(to), code).Inc()
	c.seconds.WithLabelValues(name).Observe(took.Seconds())
}

// step counts a row whose kind is the plan's and whose status is known.
func (c *operationCounts) step(s broker.OperationStep) {
	if s.Earlier {
		return
	}
	c.steps.WithLabelValues(s.StepKind, string(s.Status)).Inc()
	c.stepSeconds.WithLabelValues(s.StepKind).Observe(float64(s.DurationMS) / 1000)
	if s.AttemptNumber > 1 {
		c.stepRetries.WithLabelValues(s.StepKind).Inc()
	}
}

// denied counts an operation that a policy denied.
func (c *operationCounts) denied(code string) { c.denials.WithLabelValues(code).Inc() }

// minted counts the end of a node's request for a credential.
func (c *operationCounts) minted(credential string, err error) {
	result := mintMinted
	if err != nil {
		result = mintDenied
		if kind := broker.AsError(err).Kind; kind == broker.Internal || kind == broker.Unavailable {
			result = mintFailed
		}
	}
	c.mints.WithLabelValues(mintType(credential), result).Inc()
}

// mintType is a type of credential that a node names; other: there is no such type.
func mintType(credential string) string {
	if !slices.Contains(credentialTypes, credential) {
		return other
	}
	return credential
}

// countedRuns is the store of runs. What a change did to operations counts, and is traced, once the change is saved.
type countedRuns struct {
	*store.DB
	operations *operationCounts
	traces     *operationTraces
}

var _ chain.Store = (*countedRuns)(nil)

// Insert implements chain.Store.
func (r *countedRuns) Insert(ctx context.Context, runs []chain.NewRun, batch *chain.Batch) error {
	err := r.DB.Insert(ctx, runs, batch)
	if err == nil {
		for _, n := range runs {
			r.operations.effects(n.Effects, 0)
		}
	}
	return err
}

// Save implements chain.Store.
func (r *countedRuns) Save(ctx context.Context, c chain.Change) error {
	ending := r.traces.ending(ctx, c.Effects)
	err := r.DB.Save(ctx, c)
	if err == nil {
		r.operations.effects(c.Effects, r.Now().Sub(c.Record.RequestedAt))
		r.traces.effects(ctx, ending, c.Effects, c.Record.RequestedAt)
	}
	return err
}

// Act implements chain.Store. A run that is cancelled before it began ends its operation without an effect.
func (r *countedRuns) Act(
	ctx context.Context, o chain.Order, decide func(now time.Time, r chain.Record) (chain.Change, error),
) (chain.Record, error) {
	moved := false
	record, err := r.DB.Act(ctx, o, func(now time.Time, had chain.Record) (chain.Change, error) {
		c, err := decide(now, had)
		moved = err == nil && !had.Status.Ended() && c.Record.Status.Ended()
		return c, err
	})
	if err != nil || !moved || record.Kind != broker.OperationKind {
		return record, err
	}
	// A failed read loses a count, and not the action.
	if of, err := r.Operation(ctx, broker.OperationOfRun(record.ID)); err == nil && of.RunID == record.ID && of.Status.Ended() {
		r.operations.end(of.Operation, of.Status, of.Code, r.Now().Sub(record.RequestedAt))
		r.traces.ended(ctx, of, record.RequestedAt, nil)
	}
	return record, nil
}

// ended counts and traces an operation that a cancel ended, because it had no run any more that could end it. If nobody
// knows when its attempt was requested, the attempt began when its tasks were requested, or now.
func (r *countedRuns) ended(ctx context.Context, o broker.Operation) {
	requested := o.RequestedAt
	if o.Attempt > 1 {
		requested = cmp.Or(o.StartedAt, o.EndedAt)
	}
	if had, err := r.Run(ctx, o.RunID); err == nil {
		requested = had.RequestedAt
	}
	r.operations.end(o.Operation, o.Status, o.Code, o.EndedAt.Sub(requested))
	r.traces.ended(ctx, o, requested, nil)
}

// liveOperations counts the operations that have not ended, at each scrape.
type liveOperations struct{ db *store.DB }

var (
	liveOperationsDesc   = prometheus.NewDesc("hostler_operations", "Operations that have not ended, by status.", []string{"status"}, nil)
	oldestOperationsDesc = prometheus.NewDesc("hostler_operations_oldest_seconds",
		"How long the oldest operation that has not ended has been queued, or in its present batch, in seconds; 0: there is none.", []string{"status"}, nil)
)

// Describe implements prometheus.Collector.
func (l *liveOperations) Describe(out chan<- *prometheus.Desc) {
	out <- liveOperationsDesc
	out <- oldestOperationsDesc
}

// Collect implements prometheus.Collector. If the store does not answer, these figures are missing.
func (l *liveOperations) Collect(out chan<- prometheus.Metric) {
	ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	all, err := l.db.LiveOperations(ctx)
	if err != nil {
		return
	}
	for _, status := range []broker.OperationStatus{broker.OperationQueued, broker.OperationRunning} {
		var of store.LiveOperations
		for _, one := range all {
			if one.Status == status {
				of = one
			}
		}
		out <- prometheus.MustNewConstMetric(liveOperationsDesc, prometheus.GaugeValue, float64(of.Operations), string(status))
		out <- prometheus.MustNewConstMetric(oldestOperationsDesc, prometheus.GaugeValue, of.Oldest.Seconds(), string(status))
	}
}
