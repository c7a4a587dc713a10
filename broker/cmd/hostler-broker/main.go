package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// version and commit are set by the linker.
var (
	version = "0.0.0-dev"
	commit  = "unknown"
)

func main() { os.Exit(runProcess()) }

func runProcess() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// run is one command, from its arguments to its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code, text := "failed", err.Error()
	var e *broker.Error
	if errors.As(err, &e) {
		code, text = e.Code, e.Message
	}
	text = taskcatalog.Clean(strings.Join(strings.Fields(text), " "), 2000)
	_, _ = fmt.Fprintf(stderr, "error: %s: %s\n", code, text)
	return exitOf(e)
}

// exitOf is the only place that turns an error into an exit status.
func exitOf(e *broker.Error) int {
	if e == nil {
		return 1
	}
	switch e.Kind {
	case broker.Invalid:
		return 2
	case broker.Refused, broker.Unauthorized, broker.Forbidden:
		return 3
	case broker.NotFound:
		return 4
	}
	return 1
}

func usage(format string, args ...any) error {
	return broker.Errorf(broker.Invalid, "bad_usage", format, args...)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "hostler-broker",
		Short:         "Hostler's broker: the control plane of bare-metal GPU nodes",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version + " (" + commit + ")",
		Args:          onlyCommands,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate("hostler-broker {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%v (see %s --help)", err, c.CommandPath())
	})
	root.AddCommand(newServe(), newMigrate(), newCA(), newToken(), newBackup(), newRestore(), newVersion())
	return root
}

// onlyCommands refuses words that are not commands.
func onlyCommands(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s has no command %q (see %s --help)", c.CommandPath(), args[0], c.CommandPath())
	}
	return nil
}

// exactArgs refuses any other number of arguments.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s takes %s, and got %d arguments (see %s --help)", c.CommandPath(), what, len(args), c.CommandPath())
		}
		return nil
	}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: exactArgs(0, "nothing"),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "hostler-broker %s (%s)\n", version, commit)
			return err
		},
	}
}
