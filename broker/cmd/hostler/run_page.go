package main

import (
	"slices"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// withoutUnusedDetours leaves out the stages of detours that the run has not gone.
func withoutUnusedDetours(stages []api.RunStage) []api.RunStage {
	return slices.DeleteFunc(slices.Clone(stages), func(s api.RunStage) bool { return s.Rescues != "" && s.Attempt == 0 })
}

func runStagesPage(a *app, p *render.Page, stages []api.RunStage) {
	rows := [][]string{}
	for _, s := range stages {
		rows = append(rows, []string{s.Stage, s.Status, count(int64(s.Attempt)), stageTook(s, a.now()), s.Message})
	}
	p.Title("Stages")
	p.Table([]render.Column{
		render.Keep("STAGE"), render.Keep("STATUS"), render.More("ATTEMPT"), render.More("TOOK"),
		render.Keep("MESSAGE"),
	}, rows)
}

// eventsPage is the history of a run.
func eventsPage(p *render.Page, events []api.RunEvent) {
	rows := [][]string{}
	for _, e := range events {
		rows = append(rows, []string{render.Time(e.OccurredAt), e.Stage, e.Direction, strconv.Itoa(e.Attempt), e.Status, e.Message})
	}
	p.Title("Events")
	p.Table([]render.Column{
		render.Main("AT"), render.Keep("STAGE"), render.Aside("DIRECTION"), render.Aside("ATTEMPT"),
		render.Keep("STATUS"), render.Keep("MESSAGE"),
	}, rows)
}

// stageTook is how long the last attempt of a stage took, or has taken so far.
func stageTook(s api.RunStage, now time.Time) string {
	switch {
	case s.StartedAt.IsZero():
		return ""
	case s.EndedAt.IsZero() && s.Status != "running":
		return ""
	case s.EndedAt.IsZero():
		return render.Span(max(now.Sub(s.StartedAt), 0))
	}
	return render.Span(s.EndedAt.Sub(s.StartedAt))
}
