package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/test/manual"
)

// requestSeconds is a histogram.
const requestSeconds = "hostler_http_request_seconds"

var histograms = []string{requestSeconds, "hostler_operation_seconds", "hostler_operation_step_seconds"}

// familyOf is the metric of a series.
func familyOf(series string) string {
	for _, h := range histograms {
		if series == h+"_count" || series == h+"_bucket" {
			return h
		}
	}
	return series
}

const metricsPageHead = `# Metrics

A broker serves these metrics at ` + "`/metrics`" + ` of its operators' listener, without a token: no label names a node or a person, and only
` + "`hostler_nodes`" + ` names sites and SKUs. The same answer has
the metrics of the Go runtime (` + "`go_…`" + `) and of the process (` + "`process_…`" + `). [Watch a broker](../how-to/monitoring.md) says how to read them. The table
comes from the declarations in ` + "`broker/server`" + ` (` + "`go test ./broker/server -run TestThePageHasTheMetrics -update`" + `).

| metric | type | labels | what it says | alerts |
| --- | --- | --- | --- | --- |
`

// The documentation page lists each metric as it is declared, with the alerts that read it.
func TestThePageHasTheMetrics(t *testing.T) {
	const page = "../../docs/reference/metrics.md"
	var want strings.Builder
	want.WriteString(metricsPageHead)
	alerts := alertsByMetric(t)
	for _, d := range declaredMetrics(t) {
		if !strings.HasPrefix(d.name, "hostler_") {
			continue
		}
		if d.help == "" || strings.Contains(d.help, "|") {
			t.Errorf("the help of %s is empty or breaks the table: %q", d.name, d.help)
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s | %s |\n", d.name, typeOf(d.name), inCode(d.labels), d.help, inCode(alerts[d.name]))
	}
	manual.Hold(t, page, want.String(), *update, "go test ./broker/server -run TestThePageHasTheMetrics -update")
}

// typeOf is a metric's type by its name, because a prometheus.Desc has no type and a scrape omits a
// vector without series. TestTheTypesOfMetricsFollowTheirNames compares it with a scrape.
func typeOf(name string) string {
	switch {
	case slices.Contains(histograms, name):
		return "histogram"
	case strings.HasSuffix(name, "_total"):
		return "counter"
	}
	return "gauge"
}

func TestTheTypesOfMetricsFollowTheirNames(t *testing.T) {
	s, err := New(t.Context(), Config{DataDir: t.TempDir() + "/broker", Listen: "127.0.0.1:0", AgentListen: "127.0.0.1:0", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	families, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "hostler_") {
			continue
		}
		seen++
		if got := strings.ToLower(f.GetType().String()); got != typeOf(f.GetName()) {
			t.Errorf("%s is a %s, and reads like a %s", f.GetName(), got, typeOf(f.GetName()))
		}
	}
	if seen < 10 {
		t.Errorf("only %d metrics were gathered", seen)
	}
}

// alertsByMetric has the names of the alerts that read a metric.
func alertsByMetric(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for where, expr := range expressions(t) {
		alert, is := strings.CutPrefix(where, "alert ")
		if !is {
			continue
		}
		for _, m := range mentions(expr) {
			name := familyOf(m.name)
			if !slices.Contains(found[name], alert) {
				found[name] = append(found[name], alert)
			}
		}
	}
	for _, names := range found {
		slices.Sort(names)
	}
	return found
}

// inCode is names for a cell of a table.
func inCode(names []string) string {
	if len(names) == 0 {
		return "–"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
