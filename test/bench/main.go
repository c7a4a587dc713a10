// Command bench runs the repository's benchmarks. It prints a table of all figures and a short
// table of the figures with an aim, and writes all figures as bench.json, with the machine's load
// before the run, and as a plot, bench.svg. Failed benchmarks are listed at the end and do not hide
// the others.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

func main() {
	which := flag.String("bench", ".", "a regular expression: the benchmarks that are run")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	if err := run(*which, packages); err != nil {
		fmt.Fprintln(os.Stderr, "error: bench:", err)
		os.Exit(1)
	}
}

func run(which string, packages []string) error {
	average, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	rep := report{CPUs: runtime.NumCPU(), Go: runtime.Version(), Load: strings.Fields(string(average))[0]}
	// The benchmarks with ten thousand nodes and onboardings are in a single package and run in
	// sequence.
	cmd := exec.Command("go",
		append([]string{"test", "-run", "^$", "-bench", which, "-benchmem", "-benchtime", "3s", "-p", "1", "-timeout", "150m"},
			packages...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	failed, read := rep.read(out)
	_, _ = io.Copy(io.Discard, out) // drains the pipe so that the command ends even if reading stopped early
	ended := cmd.Wait()
	if len(rep.Results) > 0 {
		read = errors.Join(read, rep.write())
	}
	switch {
	case len(failed) > 0:
		return errors.Join(read, fmt.Errorf("failed: %s", strings.Join(failed, ", ")))
	case ended != nil:
		return errors.Join(read, fmt.Errorf("go test: %w", ended))
	}
	return read
}

// read parses the output of `go test -bench` and returns the failed benchmarks.
func (r *report) read(out io.Reader) (failed []string, err error) {
	pkg := ""
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if _, name, bad := strings.Cut(line, "--- FAIL: "); bad { // may follow the benchmark's name on its line
			failed = append(failed, strings.Fields(name)[0])
			fmt.Fprintln(os.Stderr, line)
			continue
		}
		switch word, rest, _ := strings.Cut(line, " "); {
		case word == "pkg:":
			pkg = rest
			fmt.Fprintln(os.Stderr, pkg)
		case word == "cpu:":
			r.Machine = rest
		case strings.HasPrefix(word, "Benchmark"):
			if one, ok := parse(line, r.CPUs); ok {
				one.Package = pkg
				r.Results = append(r.Results, one)
			}
		case strings.HasPrefix(line, "FAIL\t"):
			failed = append(failed, strings.Fields(line)[1])
			fmt.Fprintln(os.Stderr, line)
		case strings.HasPrefix(line, "panic:"), strings.HasPrefix(line, "    "), strings.HasPrefix(line, "--- "):
			fmt.Fprintln(os.Stderr, line)
		}
	}
	return failed, lines.Err()
}

func (r *report) write() error {
	text, err := r.encode()
	if err != nil {
		return err
	}
	plot, err := r.plot()
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile("bench.json", text, 0o644), os.WriteFile("bench.svg", plot, 0o644)); err != nil {
		return err
	}
	return errors.Join(r.printAll(os.Stdout), r.printGrowth(os.Stdout), r.printAims(os.Stdout))
}
