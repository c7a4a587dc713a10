package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// runs describes the runs of one noun to the shared commands: their names, and the calls of the
// API.
type runs[R any] struct {
	noun  string // as in hostler NOUN list
	thing string // the word for one run
	short string // the phrase for runs of a batch that failed
	many  string // flags of an example with --all
	heads []render.Column
	row   func(*app, R) []string // under heads
	look  func(R) runLook

	list  func(context.Context, *client.Client, client.RunFilter) (runPage[R], error)
	show  func(context.Context, *client.Client, string) (R, error)
	act   func(ctx context.Context, remote *client.Client, id, action string, o api.RunOrder) (R, error)
	retry func(ctx context.Context, remote *client.Client, batch, reason string) (retriedBatch[R], error)
	watch func(a *app, ctx context.Context, remote *client.Client, id string, timeout time.Duration) error
	asks  func(R, runAction) string // the question before an action on this run; nil: the action's own
}

// runPage is a page of runs, with the batch if the runs are of one batch. answer is the output of
// -o json.
type runPage[R any] struct {
	answer any
	runs   []R
	batch  *api.BatchState
}

// runLook holds the fields of a run that commands need.
type runLook struct {
	id, hostname, status, stage, class string
	asked                              string // the requested action, due after the stage in flight
}

func (k runs[R]) rows(a *app, list []R) (ids []string, rows [][]string) {
	for _, r := range list {
		ids, rows = append(ids, k.look(r).id), append(rows, k.row(a, r))
	}
	return ids, rows
}

// print shows runs, and says on stderr how to continue.
func (k runs[R]) print(a *app, list []R, note string) error {
	ids, rows := k.rows(a, list)
	err := showAll(a, list, ids, func(p *render.Page) { p.Table(k.heads, rows) })
	if err == nil && note != "" {
		a.note("%s", note)
	}
	return err
}

// printPage shows runs, the newest first.
func (k runs[R]) printPage(a *app, l runPage[R]) error {
	slices.Reverse(l.runs)
	ids, rows := k.rows(a, l.runs)
	return a.show(l.answer, ids, func(p *render.Page) {
		if b := l.batch; b != nil {
			p.Fields("batch", b.BatchID, "site", b.Site, "asked by", b.RequestedBy, "asked", moment(a, b.RequestedAt),
				"at a time", strconv.Itoa(b.Parallel),
				"runs", countsOf(b), "stopped", moment(a, b.StoppedAt), "because", b.StopReason)
			p.Blank()
		}
		p.Table(k.heads, rows)
		if len(rows) == 0 {
			a.note("no %ss", k.thing)
		}
	})
}

func runFilter(c *cobra.Command, f *client.RunFilter) {
	c.Flags().StringVar(&f.Site, "site", "", "only runs at this site")
	c.Flags().StringVar(&f.Class, "class", "", "only runs with a failure of this class")
	c.Flags().StringVar(&f.Stage, "stage", "", "only runs at this stage")
	c.Flags().StringVar(&f.Batch, "batch", "", "only runs of this batch")
}

func statusFilter(c *cobra.Command, f *client.RunFilter) {
	c.Flags().StringVar(&f.Status, "status", "",
		"only runs of this status, or of several separated by commas; live: not ended; failed: both kinds of failure")
}

func runWaitFlags(c *cobra.Command, wait *bool, timeout *time.Duration) {
	c.Flags().BoolVar(wait, "wait", false, "wait until the run ends or needs an operator, and show its progress")
	timeoutFlag(c, timeout)
}

// countsOf lists the number of a batch's runs by status.
func countsOf(b *api.BatchState) string {
	var words []string
	for _, status := range runStatuses {
		if n := b.Counts[status]; n > 0 {
			words = append(words, strconv.FormatInt(n, 10)+" "+status)
		}
	}
	return strings.Join(words, ", ")
}

var runStatuses = []string{
	"pending", "running", "compensating", "failed_retryable", "failed_manual_intervention", "completed",
	"reconciled", "cancelled",
}
