// Command bench runs every benchmark of the repository, prints one table, and
// writes the same as bench.json, with how busy the machine was before it began.
// It judges nothing: figures are for people.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// result is one line of `go test -bench` output.
type result struct {
	Package   string             `json:"package"`
	Benchmark string             `json:"benchmark"`
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

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error: bench:", err)
		os.Exit(1)
	}
}

func run() error {
	average, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	rep := report{CPUs: runtime.NumCPU(), Go: runtime.Version(), Load: strings.Fields(string(average))[0]}
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", ".", "-benchmem", "-benchtime", "3s", "-p", "1", "-timeout", "60m", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	pkg := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "pkg: "):
			pkg = strings.TrimPrefix(line, "pkg: ")
			fmt.Fprintln(os.Stderr, pkg)
		case strings.HasPrefix(line, "cpu: "):
			rep.Machine = strings.TrimPrefix(line, "cpu: ")
		case strings.HasPrefix(line, "Benchmark"):
			if r, ok := parse(line); ok {
				r.Package = pkg
				rep.Results = append(rep.Results, r)
			}
		case strings.HasPrefix(line, "FAIL"), strings.HasPrefix(line, "---"):
			fmt.Fprintln(os.Stderr, line)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return rep.write()
}

// parse reads "BenchmarkX/sub-2   120   9876 ns/op   12 B/op".
func parse(line string) (result, bool) {
	f := strings.Fields(line)
	if len(f) < 4 {
		return result{}, false
	}
	runs, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return result{}, false
	}
	r := result{Benchmark: strings.TrimPrefix(f[0], "Benchmark"), Runs: runs, Metrics: map[string]float64{}}
	for i := 2; i+1 < len(f); i += 2 {
		if v, err := strconv.ParseFloat(f[i], 64); err == nil {
			r.Metrics[f[i+1]] = v
		}
	}
	return r, true
}

func (r report) write() error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile("bench.json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Printf("\n%s, %d CPUs, %s, load %s before\n\n", r.Machine, r.CPUs, r.Go, r.Load)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BENCHMARK\tTIME/OP\tOTHER")
	for _, res := range r.Results {
		var other []string
		for _, unit := range sortedUnits(res.Metrics) {
			other = append(other, strconv.FormatFloat(res.Metrics[unit], 'g', 5, 64)+" "+unit)
		}
		fmt.Fprintf(w, "%s.%s\t%s\t%s\n", path.Base(res.Package), res.Benchmark, duration(res.Metrics["ns/op"]), strings.Join(other, ", "))
	}
	return w.Flush()
}

func sortedUnits(m map[string]float64) []string {
	units := slices.Sorted(maps.Keys(m))
	return slices.DeleteFunc(units, func(u string) bool { return u == "ns/op" })
}

func duration(ns float64) string {
	switch {
	case ns == 0:
		return "-" // it measures no time
	case ns >= 1e9:
		return fmt.Sprintf("%.2f s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	case ns >= 1e3:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	}
	return fmt.Sprintf("%.0f ns", ns)
}
