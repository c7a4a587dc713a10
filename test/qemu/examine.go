package qemu

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// examineLimit is the time limit of one look at a guest that may hang.
const examineLimit = 20 * time.Second

// Examine reports a guest's state for a failed case: the state of its QEMU, its CPUs, its console
// and its journal. A look without an answer is reported as such: to a broker, a guest that hangs
// and a program that hangs in a guest look the same. Looks that need nothing of the guest come
// first.
func (g *Guest) Examine(ctx context.Context) string {
	var said strings.Builder
	look := func(what string, ask func(context.Context) (string, error)) {
		ctx, cancel := context.WithTimeout(ctx, examineLimit)
		defer cancel()
		answer, err := ask(ctx)
		if err != nil {
			answer = fmt.Sprintf("%s\ndoes not answer: %v", answer, err)
		}
		fmt.Fprintf(&said, "%s: %s\n", what, strings.TrimSpace(answer))
	}
	human := func(line string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return g.monitor.human(ctx, line) }
	}
	run := func(argv ...string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			r, err := g.Run(ctx, argv...)
			if r.Exit != 0 { // the guest has answered: the command failed
				return fmt.Sprintf("%s\n%s\n%s ended with status %d", r.Stdout, r.Stderr, argv[0], r.Exit), nil
			}
			return r.Stdout, err
		}
	}
	look("QEMU", human("info status"))
	look("CPUs", human("info registers -a"))
	if text, err := g.Console(); err != nil {
		fmt.Fprintf(&said, "console: %v\n", err)
	} else {
		fmt.Fprintf(&said, "console:\n%s\n", text[max(0, len(text)-3000):])
	}
	look("jobs", run("systemctl", "list-jobs", "--no-pager"))
	look("journal", run("journalctl", "--no-pager", "-n", "60"))
	return said.String()
}
