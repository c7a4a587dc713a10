package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// said is the output of go test for packages with a failed benchmark and a failed build.
const said = `goos: linux
pkg: github.com/hostler/hostler/test/fleet/hall
cpu: Intel(R) Xeon(R) <Processor> & more
BenchmarkConnectedAgents/agents=100-2   	1	10.5 core-%	30 rss-kB/agent	1 restart-s
BenchmarkConnectedAgents/agents=10000-2 	1	4 core-%	46 rss-kB/agent	60 restart-s
BenchmarkOnboardings/runs=100-2         	1	2.5 onboardings/s	30 stages/s
BenchmarkOnboardings/runs=1000-2        	--- FAIL: BenchmarkOnboardings/runs=1000-2
    onboardings_test.go:1: 3 onboardings failed
--- FAIL: BenchmarkOnboardings
FAIL
FAIL	github.com/hostler/hostler/test/fleet/hall	3.2s
FAIL	github.com/hostler/hostler/pki [build failed]
pkg: github.com/hostler/hostler/broker/server
BenchmarkEnqueueToResult/sqlite/agents=1000/flight=1-2    	10	100 ns/op	0.9 p50-ms	5.5 p99-ms
BenchmarkEnqueueToResult/sqlite/agents=1000/flight=32-2   	10	100 ns/op	3499 tasks/s
BenchmarkEnqueueToResult/postgres-3/agents=1000/flight=32-2 	10	100 ns/op	7 tasks/s
PASS
FAIL
`

func read(t *testing.T) (*report, []string) {
	t.Helper()
	r := &report{CPUs: 2, Go: "go", Load: "0.1"}
	failed, err := r.read(strings.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	return r, failed
}

func TestWhatFailsIsToldAndTheRestIsRead(t *testing.T) {
	r, failed := read(t)
	want := []string{"BenchmarkOnboardings/runs=1000-2", "BenchmarkOnboardings", module + "test/fleet/hall", module + "pki"}
	if !slices.Equal(failed, want) {
		t.Errorf("failed: %v, want %v", failed, want)
	}
	if len(r.Results) != 6 {
		t.Errorf("%d results: %+v", len(r.Results), r.Results)
	}
	if v, ok := r.figure("broker/server", "EnqueueToResult/postgres-3/agents=1000/flight=32", "tasks/s"); !ok || v != 7 {
		t.Errorf("three brokers: %v, %v", v, ok)
	}
}

// A figure at its aim meets the aim, a figure beyond misses it, and a benchmark that did not run is
// not judged.
func TestFiguresAreHeldToTheirAims(t *testing.T) {
	r, _ := read(t)
	var out bytes.Buffer
	if err := r.printAims(&out); err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(out.String()) {
		what, rest, _ := strings.Cut(strings.TrimSpace(line), "  ")
		rows[what] = strings.Join(strings.Fields(rest), " ")
	}
	for what, want := range map[string]string{
		"a connected agent of 10,000: resident memory":     "46 KB ≤ 45 MISSED",
		"10,000 idle agents: the broker's processor":       "4 % of a core ≤ 5 met",
		"10,000 agents: back after a restart":              "60 s ≤ 60 met",
		"a task on SQLite, 1 in flight: p50":               "0.9 ms ≤ 1 met",
		"a task on SQLite, 1 in flight: p99":               "5.5 ms ≤ 5 MISSED",
		"tasks on SQLite, 32 in flight":                    "3499 /s ≥ 3500 MISSED",
		"tasks on PostgreSQL, 32 in flight":                "not run -",
		"tasks on PostgreSQL, three brokers, 32 in flight": "7 /s - -",
		"100 onboardings at once: stages":                  "30 /s - -",
		"10,000 onboardings at once: stages":               "not run -",
	} {
		if rows[what] != want {
			t.Errorf("%s: %q, want %q", what, rows[what], want)
		}
	}
}

func TestTheTableOfGrowthHasWhatWasTaken(t *testing.T) {
	r, _ := read(t)
	var out bytes.Buffer
	if err := r.printGrowth(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 100 | 30 | 10.5 | 1 | 2.5 |\n", "| 1,000 | not run | not run | not run | not run |\n", "| 10,000 | 46 | 4 | 60 | not run |\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it has no row %q:\n%s", want, out.String())
		}
	}
}

// drawn is a point of the plot.
type drawn struct {
	x, y float64
	text string
}

// panels reads the points of a plot, and fails unless the plot is well-formed XML.
func panels(t *testing.T, svg []byte) (out [][]drawn, text string) {
	t.Helper()
	for dec := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return out, text
		}
		if err != nil {
			t.Fatalf("it is no XML: %v\n%s", err, svg)
		}
		switch e := token.(type) {
		case xml.CharData:
			text += string(e)
		case xml.StartElement:
			last := len(out) - 1
			switch at := attributes(t, e); e.Name.Local {
			case "g":
				out = append(out, nil)
			case "circle":
				out[last] = append(out[last], drawn{x: at["cx"], y: at["cy"]})
			case "title":
				if err := dec.DecodeElement(&out[last][len(out[last])-1].text, &e); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func attributes(t *testing.T, e xml.StartElement) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, a := range e.Attr {
		if name := a.Name.Local; name == "cx" || name == "cy" {
			v, err := strconv.ParseFloat(a.Value, 64)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = v
		}
	}
	return out
}

// Each figure is a point at its place: all decades are equally wide, and twice the value is twice
// as high.
func TestThePlotHasThePointsGiven(t *testing.T) {
	r, _ := read(t)
	for n, memory := range map[string]float64{"1000": 23} {
		r.Results = append(r.Results, result{Package: module + hallPkg, Benchmark: "ConnectedAgents/agents=" + n, Metrics: map[string]float64{"rss-kB/agent": memory}})
	}
	svg, err := r.plot()
	if err != nil {
		t.Fatal(err)
	}
	all, text := panels(t, svg)
	var told []string
	for _, p := range all {
		for _, one := range p {
			told = append(told, one.text)
		}
	}
	if want := []string{
		"100 agents: 30 KB", "1,000 agents: 23 KB", "10,000 agents: 46 KB", "100 agents: 10.5 % of a core", "10,000 agents: 4 % of a core",
		"100 agents: 1 s", "10,000 agents: 60 s", "100 onboardings at once: 2.5 onboardings/s",
	}; !slices.Equal(told, want) {
		t.Errorf("its points are %q, want %q", told, want)
	}
	memory := all[0]
	if a, b := memory[1].x-memory[0].x, memory[2].x-memory[1].x; a <= 0 || a-b > 1e-6 || b-a > 1e-6 {
		t.Errorf("decades are %v and %v wide", a, b)
	}
	if half, full := floor-memory[1].y, floor-memory[2].y; half <= 0 || full-2*half > 1e-6 || 2*half-full > 1e-6 || full > floor-top {
		t.Errorf("23 is %v high and 46 is %v", half, full)
	}
	for _, want := range []string{"aim: 45", "agents", "% of a core", "Intel(R) Xeon(R) <Processor> & more, 2 CPUs", "10,000"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q", want)
		}
	}
}

// The plot has no point of a benchmark that did not run, and says so.
func TestAPlotOfNothingHasNoPoints(t *testing.T) {
	svg, err := new(report).plot()
	if err != nil {
		t.Fatal(err)
	}
	all, text := panels(t, svg)
	for i, p := range all {
		if len(p) != 0 {
			t.Errorf("panel %d has points: %v", i, p)
		}
	}
	if n := strings.Count(text, "not run"); len(all) != len(curves) || n != len(curves) {
		t.Errorf("%d panels, of which %d say that they were not run", len(all), n)
	}
}
