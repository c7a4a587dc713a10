package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func operationLogsCommand(a *app) *cobra.Command {
	var f client.OperationLogFilter
	var follow bool
	c := &cobra.Command{
		Use: "logs ID", Short: "list the attempts of an operation's steps", Args: exactly("ID"),
		Long: `List each attempt of each step on each node, in the order in which they ran. The rows
of an attempt appear when it has ended. NODE counts the nodes of the operation; only the
platform sees which node it is, and what the node said.

With --follow the command also prints each step that a node comes to, and ends with the
operation. -o json then prints one JSON object a line. After a lost connection it goes
on after the last row; --after does so with the id of a row. Ctrl-C ends it normally.`,
		Example: "  hostler operation logs op-019c4e6a2f1k7m2q4s6t8w\n" +
			"  hostler operation logs op-019c4e6a2f1k7m2q4s6t8w --step driver -o json\n" +
			"  hostler operation logs op-019c4e6a2f1k7m2q4s6t8w --follow",
		RunE: func(c *cobra.Command, args []string) error {
			if f.After != "" && !follow {
				return usage("--after goes with --follow")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			f.Operation = args[0]
			if f.Project, err = ownProject(c.Context(), remote, f.Project); err != nil {
				return err
			}
			if follow {
				return a.followOperation(c.Context(), remote, f)
			}
			return a.listOperationLog(c.Context(), remote, f)
		},
	}
	operationProjectFlag(c, &f.Project)
	c.Flags().StringVar(&f.Step, "step", "", "only rows of this `STEP`")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more, until the operation has ended")
	c.Flags().StringVar(&f.After, "after", "", "with --follow: start after the row with this `ID`")
	return c
}

func (a *app) listOperationLog(ctx context.Context, remote *client.Client, f client.OperationLogFilter) error {
	if f.Project == "" {
		l, err := remote.OperationLog(ctx, f.Operation, f.Step)
		if err != nil {
			return err
		}
		return a.showOperationLog(l, l.Items)
	}
	l, err := remote.ProjectOperationLog(ctx, f.Project, f.Operation, f.Step)
	if err != nil {
		return err
	}
	all := make([]api.PlatformOperationLine, len(l.Items))
	for i, v := range l.Items {
		all[i].OperationLine = v
	}
	return a.showOperationLog(l, all)
}

func (a *app) showOperationLog(answer any, all []api.PlatformOperationLine) error {
	ids, rows := []string{}, [][]string{}
	for _, v := range all {
		ids = append(ids, v.ID)
		rows = append(rows, []string{
			strconv.Itoa(v.Attempt), strconv.Itoa(v.Place), v.StepID, v.StepKind, strconv.Itoa(v.AttemptNumber), v.Status, v.ErrorCode,
			took(v.OperationLine), v.ResolvedProfile, v.Message,
		})
	}
	return a.show(answer, ids, func(p *render.Page) {
		p.Table([]render.Column{
			render.Keep("ATTEMPT"), render.Keep("NODE"), render.Main("STEP"), render.More("KIND"), render.Keep("TRY"), render.Keep("STATUS"),
			render.Keep("CODE"), render.Keep("TOOK"), render.More("PROFILE"), render.Keep("MESSAGE"),
		}, rows)
		if len(rows) == 0 {
			a.note("no attempt has ended")
		}
	})
}

func took(v api.OperationLine) string {
	return (time.Duration(v.DurationMS) * time.Millisecond).String()
}

// followOperation prints what happens to an operation until it has ended.
func (a *app) followOperation(ctx context.Context, remote *client.Client, f client.OperationLogFilter) error {
	err := remote.FollowOperationLog(ctx, f, a.showLogEvent, func(err error) { a.note("%v: retrying", err) })
	if ctx.Err() != nil {
		return nil // a person who follows ends the command by Ctrl-C
	}
	return err
}

// showLogEvent prints one event of a log on arrival.
func (a *app) showLogEvent(e client.OperationLogEvent) error {
	var out bytes.Buffer
	switch {
	case a.output == "json":
		if err := render.JSONLine(&out, e); err != nil {
			return err
		}
	case a.output == "yaml":
		out.WriteString("---\n")
		if err := render.YAML(&out, e); err != nil {
			return err
		}
	default:
		p := render.NewPage(a.color, 0)
		switch {
		case !a.quiet:
			p.Line(logText(e))
		case e.Line != nil:
			p.Line(e.Line.ID)
		}
		if _, err := p.WriteTo(&out); err != nil {
			return broker.Errorf(broker.Internal, "output_failed", "cannot write the output: %v", err)
		}
	}
	return a.print(&out)
}

func logText(e client.OperationLogEvent) string {
	switch {
	case e.Line != nil:
		v := e.Line
		return strings.TrimRight(fmt.Sprintf("attempt %d  node %-3d  %-16s  try %d  %-9s  %s  %s  %s", v.Attempt, v.Place, v.StepID,
			v.AttemptNumber, v.Status, took(v.OperationLine), v.ErrorCode, v.Message), " ")
	case e.Progress != nil:
		v := e.Progress
		return fmt.Sprintf("node %-3d  step %d of %d: %s is %s", v.Place, v.CurrentStepIndex, v.TotalSteps, v.CurrentStepName, v.StepStatus)
	case e.End != nil:
		return strings.TrimRight("the operation is "+e.End.Status+"  "+e.End.Code, " ")
	}
	return ""
}
