package main

import (
	"fmt"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// build describes this program.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

func thisBuild() build { return build{Version: version, Commit: commit, Go: runtime.Version()} }

func (b build) String() string {
	return fmt.Sprintf("hostler %s (commit %s, %s)", b.Version, b.Commit, b.Go)
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print this program's version", Args: exactly(),
		Example: "  hostler version -o json",
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return a.show(b, []string{b.Version}, func(p *render.Page) { p.Line(b.String()) })
		},
	}
}

// nodeCounts has a row for each status with nodes, in the order of a node's
// life.
func nodeCounts(counts map[string]int64, owed int64) [][]string {
	rows, total := [][]string{}, int64(0)
	for _, st := range broker.NodeStatuses {
		if n := counts[string(st)]; n > 0 {
			rows = append(rows, []string{string(st), strconv.FormatInt(n, 10)})
			total += n
		}
	}
	rows = append(rows, []string{"all", strconv.FormatInt(total, 10)})
	if owed > 0 {
		rows = append(rows, []string{"turnover owed", strconv.FormatInt(owed, 10)})
	}
	return rows
}

func trustLine(version, stragglers int64) string {
	line := "version " + strconv.FormatInt(version, 10)
	if stragglers > 0 {
		line += fmt.Sprintf(", not yet confirmed by %s (see hostler trust show)", plural(int(stragglers), "node"))
	}
	return line
}
