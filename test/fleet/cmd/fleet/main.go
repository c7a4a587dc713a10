// Command fleet starts the built broker on loopback and thousands of nodes, and shows their state
// until it is interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/test/fleet"
	"github.com/hostler/hostler/test/fleet/hall"
)

type options struct {
	bin, events string
	nodes       int
	tasks       time.Duration
	lasts       time.Duration
	script      fleet.Script
}

func main() {
	fleet.Serve()
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "where the programs are (make build)")
	flag.StringVar(&o.events, "events", "", "file to which each node's own account of its tasks is appended")
	flag.IntVar(&o.nodes, "n", 1000, "nodes")
	flag.DurationVar(&o.tasks, "task-every", 0, "a task for a random node each time so long; 0: none")
	flag.DurationVar(&o.lasts, "for", 0, "end after so long; 0: when it is interrupted")
	flag.DurationVar(&o.script.Takes, "takes", 0, "how long a task takes")
	flag.DurationVar(&o.script.Cut, "cut", 0, "mean time after which a node's connections break; 0: never")
	flag.DurationVar(&o.script.Renew, "renew", 0, "mean time after which a node renews its certificate, besides when it must; 0: never")
	for name, share := range map[string]*float64{
		"fail": &o.script.Fail, "silent": &o.script.Silent, "crash": &o.script.Crash,
		"duplicate": &o.script.Duplicate,
	} {
		flag.Float64Var(share, name, 0, "share of tasks, from 0 to 1")
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if o.lasts > 0 {
		ctx, stop = context.WithTimeout(ctx, o.lasts)
		defer stop()
	}
	if err := run(ctx, o); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "error: fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	fmt.Fprintf(os.Stderr, "a broker with records of %d nodes …\n", o.nodes)
	h, err := hall.New(ctx, o.bin, o.nodes, o.script, o.events)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	failed := make(chan error, 2)
	go func() {
		failed <- h.Grow(ctx, o.nodes)
	}()
	go func() {
		err := h.Until(ctx, "all have enrolled", func(c fleet.Counts) bool { return c.Enrolled == int64(o.nodes) })
		if err == nil && o.tasks > 0 {
			err = enqueue(ctx, h, o.tasks)
		}
		failed <- err
	}()
	return show(ctx, h, failed)
}

// enqueue gives tasks to random nodes.
func enqueue(ctx context.Context, h *hall.Hall, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if _, err := h.Operator.Enqueue(ctx, h.Nodes[rand.N(len(h.Nodes))], api.TaskCreate{Type: "node.heartbeat_check"}); err != nil {
			return err
		}
	}
}

const showEvery = 2 * time.Second

// show prints a line every two seconds, and a heading now and then.
func show(ctx context.Context, h *hall.Hall, failed <-chan error) error {
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	began, was := time.Now(), h.Counts()
	used, err := h.Usage()
	if err != nil {
		return err
	}
	for row := 0; ; row++ {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if err != nil {
				return err
			}
		case <-tick.C:
		}
		now := h.Counts()
		usage, err := h.Usage()
		if err != nil {
			return err
		}
		if row%20 == 0 {
			fmt.Printf("%8s %8s %8s %8s %12s %8s %8s %8s %8s %10s %8s\n", "TIME", "ENROLLED", "WAITING", "POLLS/S", "HANDSHAKES/S",
				"RESUMED", "TASKS", "PUT OFF", "ERRORS", "BROKER-MB", "CORE-%")
		}
		each := func(now, was int64) float64 { return float64(now-was) / showEvery.Seconds() }
		fmt.Printf("%8s %8d %8d %8.1f %12.1f %8d %8d %8d %8d %10.1f %8.1f\n", time.Since(began).Round(time.Second), now.Enrolled,
			now.Waiting,
			each(now.Polls, was.Polls), each(now.Handshakes, was.Handshakes), now.Resumed, now.Ended, now.Held, now.Errors,
			float64(usage.Resident)/1e6, 100*(usage.Processor-used.Processor).Seconds()/showEvery.Seconds())
		was, used = now, usage
	}
}
