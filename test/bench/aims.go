package main

import (
	"fmt"
	"io"
)

// aim is a figure that the project watches, with its target.
type aim struct {
	what                 string
	pkg, benchmark, unit string
	shown                string  // the unit, for people
	atMost, atLeast      float64 // zero: no limit
}

const (
	hallPkg     = "test/fleet/hall"
	serverPkg   = "broker/server"
	storePkg    = "broker/store"
	adminPkg    = "broker/adminapi"
	programPkg  = "broker/cmd/hostler-broker"
	tenThousand = "ConnectedAgents/agents=10000"
	onSQLite    = "EnqueueToResult/sqlite/agents=1000/"
	onPostgres  = "EnqueueToResult/postgres/agents=1000/"
	onThree     = "EnqueueToResult/postgres-3/agents=1000/"
	onboardings = "Onboardings/runs="
	terminals   = "TwoHundredTerminals"
)

// aims are all aims, in the order of the report.
var aims = []aim{
	{
		what: "a connected agent of 10,000: resident memory", pkg: hallPkg, benchmark: tenThousand, unit: "rss-kB/agent", shown: "KB",
		atMost: 45,
	},
	{
		what: "10,000 idle agents: the broker's processor", pkg: hallPkg, benchmark: tenThousand, unit: "core-%", shown: "% of a core",
		atMost: 5,
	},
	{what: "10,000 agents: back after a restart", pkg: hallPkg, benchmark: tenThousand, unit: "restart-s", shown: "s", atMost: 60},
	{what: "a task on SQLite, 1 in flight: p50", pkg: serverPkg, benchmark: onSQLite + "flight=1", unit: "p50-ms", shown: "ms", atMost: 1},
	{what: "a task on SQLite, 1 in flight: p99", pkg: serverPkg, benchmark: onSQLite + "flight=1", unit: "p99-ms", shown: "ms", atMost: 5},
	{what: "tasks on SQLite, 32 in flight", pkg: serverPkg, benchmark: onSQLite + "flight=32", unit: "tasks/s", shown: "/s", atLeast: 3500},
	{what: "a task on PostgreSQL, 1 in flight: p50", pkg: serverPkg, benchmark: onPostgres + "flight=1", unit: "p50-ms", shown: "ms"},
	{what: "a task on PostgreSQL, 1 in flight: p99", pkg: serverPkg, benchmark: onPostgres + "flight=1", unit: "p99-ms", shown: "ms"},
	{what: "tasks on PostgreSQL, 32 in flight", pkg: serverPkg, benchmark: onPostgres + "flight=32", unit: "tasks/s", shown: "/s"},
	{
		what: "a task on PostgreSQL, three brokers, 1 in flight: p50", pkg: serverPkg, benchmark: onThree + "flight=1", unit: "p50-ms",
		shown: "ms",
	},
	{
		what: "a task on PostgreSQL, three brokers, 1 in flight: p99", pkg: serverPkg, benchmark: onThree + "flight=1", unit: "p99-ms",
		shown: "ms",
	},
	{
		what: "tasks on PostgreSQL, three brokers, 32 in flight", pkg: serverPkg, benchmark: onThree + "flight=32", unit: "tasks/s",
		shown: "/s",
	},
	{
		what: "a node of 10,000 is allocated, SQLite: p99", pkg: storePkg, benchmark: "Placement/sqlite", unit: "p99-ms", shown: "ms",
		atMost: 20,
	},
	{
		what: "allocations of a node of 10,000, 16 asked for at once, SQLite", pkg: storePkg, benchmark: "Placement/sqlite/at_once",
		unit: "reservations/s", shown: "/s", atLeast: 300,
	},
	{
		what: "an allocation explained with 10,000 nodes, SQLite", pkg: adminPkg, benchmark: "Fleet/sqlite/explain", unit: "ms/answer",
		shown: "ms", atMost: 100,
	},
	{
		what: "a list of 1,000 of 10,000 nodes, SQLite", pkg: adminPkg, benchmark: "Fleet/sqlite/list", unit: "ms/answer", shown: "ms",
		atMost: 100,
	},
	{what: "100 onboardings at once: stages", pkg: hallPkg, benchmark: onboardings + "100", unit: "stages/s", shown: "/s"},
	{what: "1,000 onboardings at once: stages", pkg: hallPkg, benchmark: onboardings + "1000", unit: "stages/s", shown: "/s"},
	{what: "10,000 onboardings at once: stages", pkg: hallPkg, benchmark: onboardings + "10000", unit: "stages/s", shown: "/s"},
	{
		what: "1,000 operations at once, SQLite: processor time of one", pkg: "broker/operation/records", benchmark: "OperationsAtOnce",
		unit: "times-of-100", shown: "times that of 100 at once", atMost: 1.5,
	},
	{
		what: "1,000 operations at once, SQLite, beside 250", pkg: "broker/operation/records", benchmark: "OperationsAtOnce",
		unit: "times-of-250", shown: "times that of 250 at once", atMost: 1.5,
	},
	{what: "200 terminals at once: memory of each", pkg: programPkg, benchmark: terminals, unit: "KiB/session(after-typing)", shown: "KiB"},
	{what: "200 terminals at once: echo, p50", pkg: programPkg, benchmark: terminals, unit: "ms-echo-p50", shown: "ms"},
	{what: "200 terminals at once: echo, p99", pkg: programPkg, benchmark: terminals, unit: "ms-echo-p99", shown: "ms"},
	{what: "output of a program in a terminal", pkg: "test/link", benchmark: "OutputOfAProgram", unit: "MB/s", shown: "MB/s"},
}

// wanted returns the figure's target.
func (a aim) wanted() string {
	switch {
	case a.atMost > 0:
		return "≤ " + number(a.atMost)
	case a.atLeast > 0:
		return "≥ " + number(a.atLeast)
	}
	return "-"
}

// judge compares a figure with its target.
func (a aim) judge(v float64) string {
	switch {
	case a.atMost > 0 && v > a.atMost, v < a.atLeast:
		return "MISSED"
	case a.atMost > 0, a.atLeast > 0:
		return "met"
	}
	return "-"
}

func (r *report) printAims(out io.Writer) error {
	fmt.Fprintln(out)
	w := columns(out)
	fmt.Fprintln(w, "WHAT\tFIGURE\tAIM\t")
	for _, a := range aims {
		if v, ok := r.figure(a.pkg, a.benchmark, a.unit); ok {
			fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\n", a.what, number(v), a.shown, a.wanted(), a.judge(v))
		} else {
			fmt.Fprintf(w, "%s\tnot run\t%s\t\n", a.what, a.wanted())
		}
	}
	return w.Flush()
}
