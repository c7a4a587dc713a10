package server

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/nodeapi"
	"github.com/hostler/hostler/taskcatalog"
)

const monitoring = "../../packaging/monitoring/"

// rules is the form of a Prometheus rule file, and of nothing else.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

type dashboard struct {
	Panels []struct {
		Type, Title string
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct{ Expr string }
	}
}

// TestWhatIsWatchedExists checks the shipped alerts and the dashboard against the metrics of a
// broker: names, labels, and the values of our own labels.
func TestWhatIsWatchedExists(t *testing.T) {
	has := metricsOf(t)
	used := map[string]bool{}
	for where, expr := range expressions(t) {
		for _, m := range mentions(expr) {
			labels, ok := has[m.name]
			if !ok {
				t.Errorf("%s: there is no metric %s", where, m.name)
				continue
			}
			used[familyOf(m.name)] = true
			for label, value := range m.labels {
				if !slices.Contains(labels, label) {
					t.Errorf("%s: metric %s has no label %s", where, m.name, label)
				}
				checkValue(t, where, m.name, label, value)
			}
			for _, label := range m.by {
				if !slices.Contains(labels, label) && label != "le" && label != "instance" {
					t.Errorf("%s: metric %s has no label %s to be grouped by", where, m.name, label)
				}
			}
		}
	}
	for name := range has {
		if strings.HasPrefix(name, "hostler_") && !used[familyOf(name)] {
			t.Errorf("nobody watches metric %s", name)
		}
	}
}

// TestTheShippedAlertsFire has Prometheus's own program test the shipped alerts with the series in the
// file.
func TestTheShippedAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("this needs promtool (.ci/setup test): %v", err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", "testdata/rules.yaml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestEveryAlertHasACase compares the shipped alerts with those that the file for promtool expects to
// fire.
func TestEveryAlertHasACase(t *testing.T) {
	raw, err := os.ReadFile("testdata/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Checks []struct {
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	fires := map[string]bool{}
	for _, test := range file.Tests {
		for _, check := range test.Checks {
			for _, s := range check.Samples {
				if m := regexp.MustCompile(`alertname="(\w+)"`).FindStringSubmatch(s.Labels); m != nil {
					fires[m[1]] = true
				}
			}
		}
	}
	for where := range expressions(t) {
		if alert, is := strings.CutPrefix(where, "alert "); is && !fires[alert] {
			t.Errorf("alert %s has no case in testdata/rules.yaml in which it fires", alert)
		}
	}
}

// declared is a metric as a broker declares it.
type declared struct {
	name, help string
	labels     []string
}

// declaredMetrics are the metrics of a broker, by name.
func declaredMetrics(t *testing.T) []declared {
	t.Helper()
	s, err := New(t.Context(), Config{DataDir: t.TempDir() + "/broker", Listen: "127.0.0.1:0", AgentListen: "127.0.0.1:0", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	told := make(chan *prometheus.Desc)
	go func() { defer close(told); s.metrics.registry.Describe(told) }()
	form := regexp.MustCompile(`fqName: "([^"]+)", help: ("(?:[^"\\]|\\.)*"),.* constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	var all []declared
	for desc := range told {
		m := form.FindStringSubmatch(desc.String())
		if m == nil {
			t.Fatalf("the form of %s is unknown", desc)
		}
		help, err := strconv.Unquote(m[2])
		if err != nil {
			t.Fatalf("%s: %v", desc, err)
		}
		d := declared{name: m[1], help: help, labels: strings.FieldsFunc(m[4], func(r rune) bool { return r == ',' })}
		for _, pair := range regexp.MustCompile(`(\w+)=`).FindAllStringSubmatch(m[3], -1) {
			d.labels = append(d.labels, pair[1])
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b declared) int { return strings.Compare(a.name, b.name) })
	return all
}

// metricsOf are the labels of each metric of a broker.
func metricsOf(t *testing.T) map[string][]string {
	t.Helper()
	has := map[string][]string{"up": {"job", "instance"}} // Prometheus adds these to each target
	for _, d := range declaredMetrics(t) {
		has[d.name] = d.labels
		if slices.Contains(histograms, d.name) {
			has[d.name+"_count"], has[d.name+"_bucket"] = d.labels, d.labels
		}
	}
	return has
}

// expressions are the expressions of the rules and of the dashboard, by location.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	raw, err := os.ReadFile(monitoring + "hostler.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var r rules
	reader := yaml.NewDecoder(bytes.NewReader(raw))
	reader.KnownFields(true)
	if err := reader.Decode(&r); err != nil {
		t.Fatal(err)
	}
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Labels["severity"] == "" || all["alert "+rule.Alert] != "" {
				t.Errorf("alert %s lacks a severity, what it means or what to do, or stands there twice", rule.Alert)
			}
			all["alert "+rule.Alert] = rule.Expr
		}
	}
	if raw, err = os.ReadFile(monitoring + "hostler.dashboard.json"); err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %s hangs over the edge", p.Title)
		}
		for _, target := range p.Targets {
			all["panel "+p.Title+": "+target.Expr] = target.Expr
		}
	}
	if len(all) < 30 {
		t.Fatalf("only %d expressions were found", len(all))
	}
	return all
}

// mention is a metric in an expression.
type mention struct {
	name   string
	labels map[string]string
	by     []string
}

var (
	metricForm = regexp.MustCompile(`\b((?:hostler|go|process)_[a-z_]+|up\b)(\{(?:[^"}]|"[^"]*")*\})?`)
	labelForm  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"`)
	byForm     = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

func mentions(expr string) (all []mention) {
	var by []string
	for _, list := range byForm.FindAllStringSubmatch(expr, -1) {
		by = append(by, strings.Split(strings.ReplaceAll(list[1], " ", ""), ",")...)
	}
	for _, m := range metricForm.FindAllStringSubmatch(expr, -1) {
		one := mention{name: m[1], labels: map[string]string{}, by: by}
		for _, pair := range labelForm.FindAllStringSubmatch(m[2], -1) {
			one.labels[pair[1]] = pair[2]
		}
		all = append(all, one)
	}
	return all
}

// checkValue checks the value of a label against the possible values.
func checkValue(t *testing.T, where, metric, label, value string) {
	t.Helper()
	statuses := map[string][]string{
		"hostler_node_status":               texts(broker.NodeStatuses),
		"hostler_silent_nodes":              texts([]broker.NodeStatus{broker.Active, broker.Offline}),
		"hostler_tasks":                     texts([]broker.TaskStatus{broker.TaskQueued, broker.TaskDispatched, broker.TaskSucceeded, broker.TaskFailed, broker.TaskExpired, broker.TaskCanceled}),
		"hostler_operations":                texts(broker.OperationStatuses),
		"hostler_operations_oldest_seconds": texts(broker.OperationStatuses),
		"hostler_operation_steps_total":     texts(stepStatuses),
		"hostler_runs":                      texts([]chain.Status{chain.Pending, chain.Running, chain.Completed, chain.FailedRetryable, chain.FailedManual, chain.Cancelled, chain.Compensating, chain.Reconciled}),
	}
	known := map[string]func(string) bool{
		"type": func(v string) bool { _, err := taskcatalog.Lookup(v, 1); return err == nil },
		"outcome": func(v string) bool {
			return slices.Contains([]taskcatalog.Outcome{taskcatalog.OutcomeSucceeded, taskcatalog.OutcomeFailed, taskcatalog.OutcomeRefused, taskcatalog.OutcomeInterrupted, taskcatalog.OutcomeCanceled}, taskcatalog.Outcome(v))
		},
		"availability": func(v string) bool { return slices.Contains(broker.Availabilities, broker.Availability(v)) },
		"status":       func(v string) bool { return slices.Contains(statuses[metric], v) },
		"kind":         func(v string) bool { _, is := taskcatalog.StepKindOf(v); return is || metric == "hostler_runs" },
		"result":       func(v string) bool { return slices.Contains([]string{mintMinted, mintDenied, mintFailed}, v) },
		"job":          func(v string) bool { return v == "hostler" }, // as docs/how-to/monitoring.md has it scraped
		"route":        func(v string) bool { return v == "connect" || slices.Contains(nodeapi.Routes(), v) },
	}
	check, ours := known[label]
	for _, v := range strings.Split(value, "|") {
		if ours && !check(v) {
			t.Errorf("%s: no %s is %s", where, label, v)
		}
	}
}

func texts[S ~string](all []S) (plain []string) {
	for _, s := range all {
		plain = append(plain, string(s))
	}
	return plain
}
