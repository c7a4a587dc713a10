package main

import (
	"strconv"
	"strings"

	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

// resolverConfigPage shows the set in force, and its problems on this machine.
func resolverConfigPage(p *render.Page, r taskcatalog.ResolverConfigResult) {
	kept := []string{}
	for _, v := range r.Kept {
		kept = append(kept, v.Version)
	}
	p.Title("Resolver profiles")
	p.Fields("version", r.Version, "digest", r.Digest, "changed", render.YesNo(r.Changed), "kept", strings.Join(kept, ", "))
	rows := [][]string{}
	for _, problem := range r.Problems {
		at := problem.File
		if problem.Line > 0 {
			at += ":" + strconv.Itoa(problem.Line)
		}
		rows = append(rows, []string{at, string(problem.Code), problem.Message})
	}
	resultTable(p, "Problems on this machine", render.Kept("AT", "CODE", "MESSAGE"), rows)
}

// hwSyncPage shows the written files and the sync that proves them.
func hwSyncPage(p *render.Page, r taskcatalog.HWSyncReseedResult) {
	proof := "none: no run of the service was seen to end"
	if !r.SyncStartedAt.IsZero() && !r.SyncFinishedAt.IsZero() {
		proof = render.Time(r.SyncStartedAt) + " to " + render.Time(r.SyncFinishedAt) + ", exit status " + strconv.Itoa(r.ExitStatus)
	}
	p.Title("Hardware sync")
	p.Fields("credentials", r.Credentials, "service", r.Service, "timer", r.Timer, "timer active", render.YesNo(r.TimerActive),
		"sync", proof)
}
