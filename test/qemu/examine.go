package qemu

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// examineLimit is how long one look at a guest may take that may hang.
const examineLimit = 20 * time.Second

// Examine says how a guest is, for a case that has failed on it: what its console, its
// QEMU, its CPUs and its journal say. What does not answer is told as such: a guest
// that hangs and a program that hangs in a guest look the same from a broker.
func (g *Guest) Examine(ctx context.Context) string {
	var said strings.Builder
	if text, err := g.Console(); err != nil {
		fmt.Fprintf(&said, "console: %v\n", err)
	} else {
		fmt.Fprintf(&said, "console:\n%s\n", text[max(0, len(text)-3000):])
	}
	look := func(what string, ask func(context.Context) (string, error)) {
		ctx, cancel := context.WithTimeout(ctx, examineLimit)
		defer cancel()
		answer, err := ask(ctx)
		if err != nil {
			answer = fmt.Sprintf("%s\ndoes not answer: %v", answer, err)
		}
		fmt.Fprintf(&said, "%s: %s\n", what, strings.TrimSpace(answer))
	}
	run := func(argv ...string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			r, err := g.Run(ctx, argv...)
			return r.Stdout, err
		}
	}
	look("jobs", run("systemctl", "list-jobs", "--no-pager"))
	look("journal", run("journalctl", "--no-pager", "-n", "60"))
	look("QEMU", func(ctx context.Context) (string, error) { return g.monitor.human(ctx, "info status") })
	look("CPUs", func(ctx context.Context) (string, error) { return g.monitor.human(ctx, "info registers -a") })
	return said.String()
}
