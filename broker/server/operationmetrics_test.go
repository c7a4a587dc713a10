package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

func row(kind string, attempt int, status taskcatalog.StepStatus, earlier bool) broker.OperationStep {
	return broker.OperationStep{OperationStep: taskcatalog.OperationStep{
		StepRecord: taskcatalog.StepRecord{StepKind: kind, AttemptNumber: attempt, Status: status, DurationMS: 2500}, Earlier: earlier,
	}}
}

func TestEffectsOnOperationsAreCounted(t *testing.T) {
	c := newOperationCounts()
	c.effects([]any{broker.RequestOperation{Operation: broker.Operation{Operation: "demo.look@v1"}}}, 0)
	c.effects([]any{broker.EndOperation{
		Operation: "demo.look@v1", To: broker.OperationFailed, Code: "step_failed",
		Steps: []broker.OperationStep{
			row("health.check", 1, taskcatalog.StepFailed, false), row("health.check", 2, taskcatalog.StepFailed, false),
			row("file.render", 1, taskcatalog.StepSkipped, true),
		},
	}}, 20*time.Second)
	c.effects([]any{broker.RetryOperation{Operation: "demo.look@v1"}}, 0)
	c.effects([]any{broker.EndOperation{Operation: "demo.look@v2", To: broker.OperationSucceeded}}, 4*time.Second)
	got := counted(t, c)
	for series, want := range map[string]float64{
		"hostler_operations_begun_total demo.look":                    1,
		"hostler_operation_retries_total demo.look":                   1,
		"hostler_operations_ended_total step_failed demo.look failed": 1,
		"hostler_operations_ended_total  demo.look succeeded":         1,
		"hostler_operation_steps_total health.check failed":           2,
		"hostler_operation_step_retries_total health.check":           1,
		"hostler_operation_steps_total file.render skipped":           0,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v, want %v", series, v, want)
		}
	}
}

// counted are the counters by name and values of labels.
func counted(t *testing.T, c *operationCounts) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if m.GetCounter() != nil {
				all[name] = m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// A node, a tenant and an administrator cannot make more series than the tables have.
func TestLabelsOfOperationsAreBounded(t *testing.T) {
	c := newOperationCounts()
	before := len(counted(t, c))
	for i := range 1000 {
		c.end(fmt.Sprintf("demo.op%d@v1", i), broker.OperationFailed, fmt.Sprintf("code_%d", i), time.Second)
		c.minted(fmt.Sprintf("type_%d", i), nil)
	}
	if n := len(counted(t, c)) - before; n != maxOperationNames+1 {
		t.Errorf("there are %d new series, want %d", n, maxOperationNames+1)
	}
}

func TestADeniedCredentialIsNoFailedOne(t *testing.T) {
	c := newOperationCounts()
	c.minted("s3_read", nil)
	c.minted("s3_read", broker.Errorf(broker.Refused, "lease_lost", "no"))
	c.minted("s3_read", broker.Errorf(broker.TooMany, "mint_too_soon", "no"))
	c.minted("s3_read", broker.Errorf(broker.Unavailable, "secrets_unreachable", "no"))
	c.minted("s3_read", errors.New("disk"))
	got := counted(t, c)
	for result, want := range map[string]float64{mintMinted: 1, mintDenied: 2, mintFailed: 2} {
		if v := got["hostler_credential_mints_total s3_read "+result]; v != want {
			t.Errorf("%s: %v, want %v", result, v, want)
		}
	}
}

// What a step may ask its cluster counts by words of its own.
func TestNoCredentialOfAStepCountsAsAnother(t *testing.T) {
	c := newOperationCounts()
	for _, credential := range []string{"cluster_membership", "cluster_leave", "oci_pull", "terminal_session"} {
		c.minted(credential, nil)
		if n := counted(t, c)["hostler_credential_mints_total "+credential+" minted"]; n != 1 {
			t.Errorf("%s counts %v times", credential, n)
		}
	}
}

// A metric of operations has none of the labels that would name a tenant or a node.
func TestMetricsOfOperationsNameNobody(t *testing.T) {
	for _, d := range declaredMetrics(t) {
		for _, label := range d.labels {
			if strings.HasPrefix(d.name, "hostler_operation") && !strings.Contains(" operation outcome code kind status ", " "+label+" ") {
				t.Errorf("%s has the label %s", d.name, label)
			}
		}
	}
}
