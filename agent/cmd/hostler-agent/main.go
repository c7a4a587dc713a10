// Hostler-agent looks after one node: it enrols, takes signed tasks, and reports
// evidence.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// version and commit are set by the linker.
var (
	version = "0.0.0-dev"
	commit  = "unknown"
)

func main() {
	// With GOMAXPROCS 1, every blocking system call costs several times its work: see
	// machine.FileStates.
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
