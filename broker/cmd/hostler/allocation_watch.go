package main

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func allocationWatchCommand(a *app) *cobra.Command {
	var project string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "watch ID", Short: "follow an allocation until it needs somebody", Args: exactly("ID"),
		Long: `Follow an allocation until it is active, released, failed or release_failed: until
its status no longer changes by itself. The exit status is 0 if it is active or
released. The command follows the events of the project, and reads the allocation
when the stream begins, at each event of the allocation and every 30 seconds. While the
broker is away the command says so and tries again, for up to a minute.`,
		Example: "  hostler allocation watch alc-019c4e6a2f1k7m2q4s6t8w --timeout 1h",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if project, err = ownProject(c.Context(), remote, project); err != nil {
				return err
			}
			return a.watchAllocation(c.Context(), remote, project, args[0], timeout)
		},
	}
	allocationProjectFlag(c, &project)
	timeoutFlag(c, &timeout)
	return c
}

// watchAllocation follows an allocation and shows it when its status no longer changes by itself.
func (a *app) watchAllocation(ctx context.Context, remote *client.Client, project, id string, timeout time.Duration) error {
	waiting, cancel := within(ctx, timeout)
	defer cancel()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	w := &allocationWatch{app: a, remote: remote, project: project, id: id, begun: a.now(), progress: a.progress(), again: again.C}
	stop := w.redraw()
	err := w.follow(waiting)
	stop()
	switch {
	case errors.Is(err, errSettled):
	case waiting.Err() != nil && ctx.Err() == nil:
		return timedOut("allocation %s still changes after %s (it continues: hostler allocation watch %s)", id, timeout, id)
	case ctx.Err() != nil:
		return broker.Errorf(broker.Internal, "interrupted", "stopped watching allocation %s (it continues: hostler allocation watch %s)", id, id)
	default:
		return err
	}
	if err := a.showAllocation(w.last); err != nil || w.last.Message == "" {
		return err
	}
	return broker.Errorf(broker.Internal, w.last.Code, "allocation %s is %s: %s", id, w.last.Status, w.last.Message)
}

const (
	// withoutStream is how often an allocation is read while the broker has no place for another stream.
	withoutStream = 5 * time.Second
	// lookAgain is how often an allocation is read although no event came: while the broker places no events, a
	// stream brings none.
	lookAgain = 30 * time.Second
)

// errSettled ends a watch: the status no longer changes by itself.
var errSettled = errors.New("settled")

// allocationWatch follows an allocation by the events of its project.
type allocationWatch struct {
	*app
	remote      *client.Client
	project, id string // the project may be empty, see allocationOf
	begun       time.Time
	again       <-chan time.Time // when the allocation is read although no event came

	looking sync.Mutex // one look at a time, so that no earlier answer replaces a later one
	settled bool       // guarded by looking

	mu       sync.Mutex // the live line is redrawn by a goroutine
	progress *progress
	last     *seenAllocation // nil: not read yet
	away     string          // why there is no stream; empty: there is one
}

// follow returns errSettled, or why the watch ended before.
func (w *allocationWatch) follow(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	var looks sync.WaitGroup
	looks.Go(func() { end(w.lookAgain(ctx)) })
	err := w.stream(ctx)
	if errors.Is(context.Cause(ctx), errSettled) {
		err = errSettled
	}
	end(nil)
	looks.Wait()
	return err
}

// lookAgain reads the allocation at each tick, until ctx ends or the allocation is settled. The stream tells
// what else fails.
func (w *allocationWatch) lookAgain(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.again:
		}
		if err := w.look(ctx); errors.Is(err, errSettled) {
			return err
		}
	}
}

// stream reads the allocation when a stream begins, and at each of its events.
func (w *allocationWatch) stream(ctx context.Context) error {
	if w.project == "" { // the stream is one of the allocation's project
		if err := w.look(ctx); err != nil {
			return err
		}
	}
	for {
		f := client.EventFilter{
			Project: cmp.Or(w.project, w.projectID()), Follow: true,
			Opened: func() error {
				w.lost(nil)
				return w.look(ctx)
			},
		}
		err := w.remote.Events(ctx, f, func(e api.Event) error {
			if e.Subject != "allocation/"+w.id {
				return nil
			}
			return w.look(ctx)
		}, w.lost)
		switch client.Code(err) {
		case "events_forgotten", "event_unknown":
			w.lost(err) // a new stream begins with a look, so nothing is missed
			pause(ctx, tick)
		case "too_many_readers":
			w.lost(err)
			if err := w.look(ctx); err != nil {
				return err
			}
			pause(ctx, withoutStream)
		default:
			return err
		}
	}
}

// look reads the allocation. errSettled: its status no longer changes by itself.
func (w *allocationWatch) look(ctx context.Context) error {
	w.looking.Lock()
	defer w.looking.Unlock()
	if w.settled {
		return errSettled
	}
	v, err := allocationOf(ctx, w.remote, w.project, w.id)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = v
	switch broker.AllocationStatus(v.Status) {
	case broker.AllocationRequested, broker.AllocationProvisioning, broker.AllocationReleasing:
		w.draw()
		return nil
	}
	w.settled = true
	return errSettled
}

func (w *allocationWatch) projectID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		return ""
	}
	return w.last.ProjectID
}

// lost says once why there is no stream; nil: there is one again.
func (w *allocationWatch) lost(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.away
	w.away = ""
	if err != nil {
		w.away = err.Error()
	}
	if w.away == was {
		return
	}
	w.progress.done()
	if err == nil {
		w.note("connected again")
		return
	}
	w.note("%v: retrying", err)
}

// draw shows the status. The caller holds mu.
func (w *allocationWatch) draw() {
	text := w.id + "  " + w.last.Status
	if w.progress.live {
		text = render.Span(w.now().Sub(w.begun)) + "  " + text
	}
	w.progress.say(w.last.Status, text)
}

// redraw keeps the time on a live line, until stop is called. stop removes the line.
func (w *allocationWatch) redraw() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var drawing sync.WaitGroup
	if w.progress.live {
		drawing.Go(func() {
			for pause(ctx, tick); ctx.Err() == nil; pause(ctx, tick) {
				w.mu.Lock()
				if w.last != nil {
					w.draw()
				}
				w.mu.Unlock()
			}
		})
	}
	return func() {
		cancel()
		drawing.Wait()
		w.progress.done()
	}
}
