package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

// taskView is a task with the node's signed report about it.
type taskView struct {
	api.Task
	Report *api.Evidence `json:"report,omitempty"`
}

func taskShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show TASK", Short: "show a task: verdict, findings, actions and evidence", Args: exactly("TASK"),
		Example: "  hostler task show TASK\n  hostler task show TASK -o json | jq .verdict",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.Task(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showTask(c.Context(), remote, t)
		},
	}
}

// watch follows a task to its end and shows it.
func (a *app) watch(ctx context.Context, remote *client.Client, t *api.Task, timeout time.Duration) error {
	t, err := a.follow(ctx, remote, t, timeout)
	if err != nil {
		return err
	}
	if err := a.showTask(ctx, remote, t); err != nil {
		return err
	}
	return verdictOf(t)
}

func (a *app) showTask(ctx context.Context, remote *client.Client, t *api.Task) error {
	v := taskView{Task: *t}
	if t.Evidence {
		var err error
		var gone *broker.Error
		if v.Report, err = remote.Evidence(ctx, t.ID); err != nil && (!errors.As(err, &gone) || gone.Kind != broker.NotFound) {
			return err
		}
	}
	return a.show(v, []string{t.ID}, func(p *render.Page) { a.taskPage(p, v) })
}

func (a *app) taskPage(p *render.Page, v taskView) {
	t := v.Task
	p.Fields("task", t.ID, "type", fmt.Sprintf("%s@%d", t.Type, t.Version), "node", nodeName(t), "class", t.Class,
		"params", string(t.Params), "status", t.Status, "outcome", t.Outcome, "code", t.Code, "message", t.Message,
		"verdict", t.Verdict, "asked for by", t.EnqueuedBy, "retry of", t.RetryOf, "attempt", strconv.Itoa(t.Attempt),
		"issued", moment(a, t.IssuedAt), "latest start", moment(a, t.NotAfter), "delivered", moment(a, t.DispatchedAt),
		"ended", moment(a, t.EndedAt),
		"correlation", t.CorrelationID, "signed with", t.KeyID, "envelope", t.EnvelopeDigest)
	if g := t.Progress; g != nil && !t.Ended {
		p.Fields("progress", fmt.Sprintf("step %d/%d %s %s %d%% %s", g.CurrentStepIndex, g.TotalSteps, g.CurrentStepName, g.StepStatus,
			g.StepPercent, g.Message))
	}
	if l := t.Late; l != nil {
		p.Fields("said afterwards", lateWord(l)+" ("+moment(a, l.At)+")")
	}
	taskResult(p, fmt.Sprintf("%s@%d", t.Type, t.Version), t.Result)
	if v.Report != nil {
		reportTables(p, v.Report.Evidence.Report)
		evidenceFields(p, v.Report.Evidence)
	}
}

// lateWord describes the node's report on a task that had ended outcome_unknown.
func lateWord(l *api.LateWord) string {
	said, by := l.Outcome, "its result"
	switch {
	case l.Running:
		said = "it still runs"
	case said == "":
		said = "no outcome is known"
	}
	if l.Probe {
		by = "a probe"
	}
	for _, more := range []string{l.Code, l.Message} {
		if more != "" {
			said += ": " + more
		}
	}
	return by + " says " + said
}

func nodeName(t api.Task) string {
	if t.Hostname == "" {
		return t.NodeID
	}
	return t.Hostname + " (" + t.NodeID + ")"
}

// reportTables shows the node's findings and actions.
func reportTables(p *render.Page, r taskcatalog.Report) {
	if len(r.Findings) > 0 {
		p.Title("Findings")
		rows := [][]string{}
		for _, f := range r.Findings {
			uid := ""
			if f.UID != nil {
				uid = strconv.FormatUint(uint64(*f.UID), 10)
			}
			rows = append(rows, []string{f.Check, f.Subject, uid, count(f.Count), f.NextAction, f.Detail})
		}
		p.Table([]render.Column{
			render.Keep("CHECK"), render.Keep("SUBJECT"), render.More("UID"), render.More("COUNT"),
			render.Keep("NEXT ACTION"), render.Keep("DETAIL"),
		}, rows)
		omitted(p, r.FindingsOmitted, "finding")
	}
	if len(r.Dispositions) > 0 {
		p.Title("What was done")
		rows := [][]string{}
		for _, d := range r.Dispositions {
			rows = append(rows, []string{d.Check, d.Action, count(d.Files), size(d.Bytes), d.Path, d.Reason})
		}
		p.Table([]render.Column{
			render.Keep("CHECK"), render.Keep("ACTION"), render.Main("FILES"), render.More("BYTES"), render.Keep("PATH"),
			render.Keep("REASON"),
		}, rows)
		omitted(p, r.DispositionsOmitted, "line")
	}
	made := 0
	rows, without := [][]string{}, [][]string{}
	for _, c := range r.Checks {
		if c.Made {
			made++
		} else {
			rows = append(rows, []string{c.Name, c.Reason})
		}
		if c.NotApplicable {
			without = append(without, []string{c.Name, c.Reason})
		}
	}
	if len(r.Checks) > 0 {
		p.Title(fmt.Sprintf("Checks: %d of %d made", made, len(r.Checks)))
		p.Table(render.Kept("NOT MADE", "REASON"), rows)
		p.Table(render.Kept("DOES NOT APPLY", "REASON"), without)
	}
}

func omitted(p *render.Page, n int, what string) {
	if n > 0 {
		p.Line("and " + plural(n, what) + " more, which the evidence only counts")
	}
}

func size(n int64) string {
	if n == 0 {
		return ""
	}
	return render.Bytes(n)
}

func evidenceFields(p *render.Page, e taskcatalog.Evidence) {
	p.Title("Evidence, signed by the node")
	p.Fields("started", render.Time(e.StartedAt), "finished", render.Time(e.FinishedAt), "outcome", string(e.Outcome),
		"node", e.NodeID, "epoch", strconv.FormatInt(e.NodeEpoch, 10), "boot", e.BootID, "agent", e.AgentVersion,
		"task envelope", e.TaskDigest, "result", e.ResultDigest)
}
