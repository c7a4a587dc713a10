// Hostler-agent looks after one node: it enrols, takes signed tasks, and reports
// evidence.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version and commit are set by the linker.
var (
	version = "0.0.0-dev"
	commit  = "unknown"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
