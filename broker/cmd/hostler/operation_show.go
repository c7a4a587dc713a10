package main

import (
	"cmp"
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

// seenOperation is an operation as the token sees it. answer is what -o json prints.
type seenOperation struct {
	api.Operation
	platform *api.PlatformOperation // nil: the token is a tenant's
	answer   any
}

func tenantsOperation(v *api.Operation) *seenOperation {
	return &seenOperation{Operation: *v, answer: v}
}

func platformsOperation(v *api.PlatformOperation) *seenOperation {
	return &seenOperation{Operation: v.Operation, platform: v, answer: v}
}

// operationOf reads an operation of a project, or with an empty project as the platform.
func operationOf(ctx context.Context, remote *client.Client, project, id string) (*seenOperation, error) {
	if project == "" {
		v, err := remote.Operation(ctx, id)
		if err != nil {
			return nil, err
		}
		return platformsOperation(v), nil
	}
	v, err := remote.ProjectOperation(ctx, project, id)
	if err != nil {
		return nil, err
	}
	return tenantsOperation(v), nil
}

func operationProjectFlag(c *cobra.Command, project *string) {
	c.Flags().StringVar(project, "project", "",
		"`PROJECT` of the operation: an id, a name, or ORGANISATION/NAME; default: the project of the token")
}

func operationListCommand(a *app) *cobra.Command {
	var f client.OperationFilter
	var project, from, to string
	c := &cobra.Command{
		Use: "list", Short: "list operations, newest first", Args: exactly(),
		Long: `List the operations of a project. With a token of the platform list those of all
projects and of the platform, or with --project those of one project.`,
		Example: "  hostler operation list\n  hostler operation list --project acme/lab --status failed,canceled\n" +
			"  hostler operation list --operation model.artifact.stage --from 24h",
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if f.From, err = a.timeFlag("from", from); err != nil {
				return err
			}
			if f.To, err = a.timeFlag("to", to); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			me, err := remote.Whoami(c.Context())
			if err != nil {
				return err
			}
			if me.OrganisationID == "" { // of the platform, which sees more
				l, err := remote.Operations(c.Context(), project, f)
				if err != nil {
					return err
				}
				all := make([]api.Operation, len(l.Items))
				for i, v := range l.Items {
					all[i] = v.Operation
				}
				return a.showOperations(l, all)
			}
			if project, err = ownProject(c.Context(), remote, project); err != nil {
				return err
			}
			l, err := remote.ProjectOperations(c.Context(), project, f)
			if err != nil {
				return err
			}
			return a.showOperations(l, l.Items)
		},
	}
	operationProjectFlag(c, &project)
	c.Flags().StringVar(&f.Status, "status", "", "only of these statuses, separated by commas: queued, running, succeeded, failed, canceled")
	c.Flags().StringVar(&f.Operation, "operation", "", "only executions of this `DEFINITION`, such as model.artifact.stage@v1, or of all its versions")
	c.Flags().StringVar(&f.Allocation, "allocation", "", "only operations on this `ALLOCATION`")
	c.Flags().StringVar(&from, "from", "", "requested at this `TIME` or later: 2006-01-02, 2006-01-02T15:04:05Z, or an age such as 24h")
	c.Flags().StringVar(&to, "to", "", "requested before this `TIME`")
	return c
}

func (a *app) showOperations(answer any, all []api.Operation) error {
	ids, rows := []string{}, [][]string{}
	for _, v := range all {
		ids = append(ids, v.ID)
		rows = append(rows, []string{
			v.ID, v.Operation, v.Status, v.Code, strconv.Itoa(v.Attempt), targetOf(v), render.Time(v.RequestedAt),
			v.RequestedBy, v.ProjectID,
		})
	}
	return a.show(answer, ids, func(p *render.Page) {
		p.Table([]render.Column{
			render.ID("ID"), render.Main("OPERATION"), render.Keep("STATUS"), render.Keep("CODE"), render.More("ATTEMPT"),
			render.Keep("TARGET"),
			render.Keep("REQUESTED"), render.More("BY"), render.More("PROJECT"),
		}, rows)
		if len(rows) == 0 {
			a.note("no operations")
		}
	})
}

func targetOf(v api.Operation) string {
	if v.AllocationID != "" {
		return v.AllocationID
	}
	if v.Group != "" {
		return "group " + v.Group
	}
	return v.Target
}

func operationShowCommand(a *app) *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "show ID", Short: "show an operation, and where its nodes are", Args: exactly("ID"),
		Example: "  hostler operation show op-019c4e6a2f1k7m2q4s6t8w",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if project, err = ownProject(c.Context(), remote, project); err != nil {
				return err
			}
			v, err := operationOf(c.Context(), remote, project, args[0])
			if err != nil {
				return err
			}
			return a.showOperation(v)
		},
	}
	operationProjectFlag(c, &project)
	return c
}

func (a *app) showOperation(v *seenOperation) error {
	fields := []string{
		"id", v.ID, "operation", v.Operation.Operation, "status", v.Status, "attempt", strconv.Itoa(v.Attempt), "code", v.Code,
		"message", v.Message,
		"target", targetOf(v.Operation), "nodes", strconv.Itoa(v.Nodes), "project", v.ProjectID, "requested by", v.RequestedBy,
		"reason", v.Reason, "requested", moment(a, v.RequestedAt), "started", ifReached(a, v.StartedAt), "ended", ifReached(a, v.EndedAt),
		"trace", v.TraceID,
	}
	if b := v.Batches; b.Count > 1 {
		fields = append(fields, "batch", batchText(b))
	}
	if p := v.platform; p != nil {
		fields = append(fields, "detail", p.Detail, "node ids", strings.Join(p.NodeIDs, ", "), "site", p.Site, "run", p.RunID,
			"canceled by", p.CanceledBy, "cancel reason", p.CancelReason)
	}
	return a.show(v.answer, []string{v.ID}, func(p *render.Page) {
		p.Fields(fields...)
		showMembers(p, v.Members)
		var rows [][]string
		for _, at := range v.Progress {
			rows = append(rows, []string{
				strconv.Itoa(at.Place), at.TaskStatus, at.StepID, fmt.Sprintf("%d/%d", at.StepIndex, at.Steps), fmt.Sprintf("%d%%", at.Percent),
			})
		}
		if len(rows) > 0 {
			p.Table([]render.Column{render.ID("NODE"), render.Keep("TASK"), render.Main("STEP"), render.Keep("OF"), render.Keep("DONE")}, rows)
		}
	})
}

// showMembers shows the allocations or the nodes of a group, with the places of their nodes.
func showMembers(p *render.Page, all []api.OperationMember) {
	var rows [][]string
	first, kind := 1, "ALLOCATION"
	for _, m := range all {
		if m.NodeID != "" {
			kind = "MEMBER"
		}
		rows = append(rows, []string{
			cmp.Or(m.AllocationID, m.NodeID), fmt.Sprintf("%d-%d", first, first+m.Nodes-1), strconv.Itoa(m.Succeeded), strconv.Itoa(m.Failed),
			strconv.Itoa(m.Skipped), m.Code,
		})
		first += m.Nodes
	}
	if len(rows) > 0 {
		p.Table([]render.Column{
			render.ID(kind), render.Keep("NODES"), render.Keep("SUCCEEDED"), render.Keep("FAILED"), render.Keep("SKIPPED"), render.Keep("CODE"),
		}, rows)
	}
}

func batchText(b api.OperationBatches) string {
	text := fmt.Sprintf("%d of %d", b.Present, b.Count)
	if b.Stopped {
		text += ", and no further one began"
	}
	return text
}

func operationWatchCommand(a *app) *cobra.Command {
	var project string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "watch ID", Short: "wait until an operation has ended", Args: exactly("ID"),
		Long: `Read an operation again and again until it has ended, and say whenever its status or a
step changes. The exit status is 0 if it succeeded.`,
		Example: "  hostler operation watch op-019c4e6a2f1k7m2q4s6t8w --timeout 1h",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if project, err = ownProject(c.Context(), remote, project); err != nil {
				return err
			}
			return a.watchOperation(c.Context(), remote, project, args[0], timeout)
		},
	}
	operationProjectFlag(c, &project)
	timeoutFlag(c, &timeout)
	return c
}

// betweenLooks is how often a watched operation is read.
const betweenLooks = 2 * time.Second

// watchOperation waits until an operation has ended, and shows it.
func (a *app) watchOperation(ctx context.Context, remote *client.Client, project, id string, timeout time.Duration) error {
	waiting, cancel := within(ctx, timeout)
	defer cancel()
	for told := ""; ; {
		v, err := operationOf(waiting, remote, project, id)
		switch {
		case waiting.Err() != nil && ctx.Err() == nil:
			return timedOut("operation %s has not ended after %s (it continues: hostler operation watch %s)", id, timeout, id)
		case ctx.Err() != nil:
			return broker.Errorf(broker.Internal, "interrupted",
				"stopped watching operation %s (it continues: hostler operation watch %s, hostler operation cancel %s)", id, id, id)
		case err != nil:
			return err
		}
		if broker.OperationStatus(v.Status).Ended() {
			if err := a.showOperation(v); err != nil || v.Status == string(broker.OperationSucceeded) {
				return err
			}
			return broker.Errorf(broker.Internal, v.Code, "operation %s is %s: %s", id, v.Status, v.Code)
		}
		if line := watchedLine(v); line != told {
			a.note("%s", line)
			told = line
		}
		pause(waiting, betweenLooks)
	}
}

func watchedLine(v *seenOperation) string {
	line := v.ID + "  " + v.Status
	if v.Batches.Count > 1 {
		line += "  batch " + batchText(v.Batches)
	}
	if len(v.Members) > 0 {
		succeeded, failed, skipped := 0, 0, 0
		for _, m := range v.Members {
			succeeded, failed, skipped = succeeded+m.Succeeded, failed+m.Failed, skipped+m.Skipped
		}
		line += fmt.Sprintf("  %d of %d nodes succeeded, %d failed, %d skipped", succeeded, v.Nodes, failed, skipped)
	}
	for _, at := range v.Progress {
		if at.StepID != "" {
			line += fmt.Sprintf("  node %d: %s (%d/%d)", at.Place, at.StepID, at.StepIndex, at.Steps)
		}
	}
	return line
}

func operationStatusNames() (names []string) {
	for _, s := range broker.OperationStatuses {
		names = append(names, string(s))
	}
	return names
}

// operationCandidates offers operations that have not ended.
func operationCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	me, err := remote.Whoami(ctx)
	if err != nil {
		return nil, err
	}
	var all []api.Operation
	if me.OrganisationID == "" {
		l, err := remote.Operations(ctx, "", client.OperationFilter{Status: "queued,running"})
		if err != nil {
			return nil, err
		}
		for _, v := range l.Items {
			all = append(all, v.Operation)
		}
	} else if me.ProjectID != "" {
		l, err := remote.ProjectOperations(ctx, me.ProjectID, client.OperationFilter{Status: "queued,running"})
		if err != nil {
			return nil, err
		}
		all = l.Items
	}
	for _, v := range all {
		out = append(out, candidate{v.ID, v.Operation + ", " + v.Status})
	}
	return out, nil
}
