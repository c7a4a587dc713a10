package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// module is the path prefix of the repository's packages.
const module = "github.com/hostler/hostler/"

// result is one line of `go test -bench` output.
type result struct {
	Package   string             `json:"package"`
	Benchmark string             `json:"benchmark"` // without the number of processors
	Runs      int64              `json:"runs"`
	Metrics   map[string]float64 `json:"metrics"` // by unit: ns/op, B/op, tasks/s, p50-ms …
}

type report struct {
	Machine string   `json:"machine"`
	CPUs    int      `json:"cpus"`
	Go      string   `json:"go"`
	Load    string   `json:"load"` // of the minute before
	Results []result `json:"results"`
}

// parse reads "BenchmarkX/sub-2   120   9876 ns/op   12 B/op", as of a machine of two
// processors.
func parse(line string, cpus int) (result, bool) {
	f := strings.Fields(line)
	if len(f) < 4 {
		return result{}, false
	}
	runs, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return result{}, false
	}
	name := strings.TrimPrefix(f[0], "Benchmark")
	if cpus > 1 {
		name = strings.TrimSuffix(name, fmt.Sprintf("-%d", cpus))
	}
	r := result{Benchmark: name, Runs: runs, Metrics: map[string]float64{}}
	for i := 2; i+1 < len(f); i += 2 {
		if v, err := strconv.ParseFloat(f[i], 64); err == nil {
			r.Metrics[f[i+1]] = v
		}
	}
	return r, true
}

// figure returns a benchmark's figure in a unit; false if the figure was not taken.
func (r *report) figure(pkg, benchmark, unit string) (v float64, ok bool) {
	i := slices.IndexFunc(r.Results, func(one result) bool { return one.Package == module+pkg && one.Benchmark == benchmark })
	if i < 0 {
		return 0, false
	}
	v, ok = r.Results[i].Metrics[unit]
	return v, ok
}

func (r *report) encode() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// where describes the machine and its load before the run.
func (r *report) where() string {
	return fmt.Sprintf("%s, %d CPUs, %s, load %s before", r.Machine, r.CPUs, r.Go, r.Load)
}

func (r *report) printAll(out io.Writer) error {
	fmt.Fprintf(out, "\n%s\n\n", r.where())
	w := columns(out)
	fmt.Fprintln(w, "BENCHMARK\tTIME/OP\tOTHER")
	for _, res := range r.Results {
		var other []string
		for _, unit := range sortedUnits(res.Metrics) {
			other = append(other, number(res.Metrics[unit])+" "+unit)
		}
		fmt.Fprintf(w, "%s.%s\t%s\t%s\n", path.Base(res.Package), res.Benchmark, duration(res.Metrics["ns/op"]), strings.Join(other, ", "))
	}
	return w.Flush()
}

func columns(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

func number(v float64) string { return strconv.FormatFloat(v, 'g', 5, 64) }

func sortedUnits(m map[string]float64) []string {
	units := slices.Sorted(maps.Keys(m))
	return slices.DeleteFunc(units, func(u string) bool { return u == "ns/op" })
}

func duration(ns float64) string {
	switch {
	case ns == 0:
		return "-" // no time was measured
	case ns >= 1e9:
		return fmt.Sprintf("%.2f s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	case ns >= 1e3:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	}
	return fmt.Sprintf("%.0f ns", ns)
}
