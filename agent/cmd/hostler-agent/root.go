package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
)

// The exit statuses.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2 // bad usage or bad input
	exitRefused = 3 // by policy or state
	exitMissing = 4 // the named object does not exist
)

// codeUsage is the code of every error in the command line.
const codeUsage taskcatalog.Code = "bad_usage"

func usage(format string, args ...any) error { return taskcatalog.Errorf(codeUsage, format, args...) }

// newRoot is the whole tree of commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "hostler-agent",
		Short: "Look after this node: enrol, take signed tasks, report evidence",
		Long: `Hostler-agent runs on every node. It enrols with a one-time token, fetches typed
tasks that its broker has signed, checks each task, runs it and reports evidence. It
opens every connection itself and listens on nothing.`,
		Version:       version + " (" + commit + ")",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args:              noArgs,
	}
	root.AddCommand(newRun(), newEnroll(), newStatus(thisMachine()), newFacts(), newResolver(), newGPU(), newWatch(),
		newSelfTest(thisMachine()), newUpdate(thisMachine()), newSession(), newSessionEnded(), newVersion())
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate("hostler-agent {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%v (see %s --help)", err, cmd.CommandPath())
	})
	return root
}

// run executes a command, from its arguments to its exit status.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	code, message := describe(err)
	fmt.Fprintf(errOut, "error: %s: %s\n", code, message)
	return exitOf(code, err)
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no argument %q (see %s --help)", cmd.CommandPath(), taskcatalog.Clean(args[0], 40), cmd.CommandPath())
	}
	return nil
}

// describe gives every error a code and a single clean line.
func describe(err error) (taskcatalog.Code, string) {
	code := taskcatalog.CodeOf(err, "failed")
	if r, ok := uplink.RefusalOf(err); ok {
		code = r.Code
	}
	if errors.Is(err, context.Canceled) {
		return "interrupted", "stopped by a signal"
	}
	return code, taskcatalog.Clean(err.Error(), taskcatalog.MaxText)
}

// exitOf is the only place where an error becomes an exit status.
func exitOf(code taskcatalog.Code, err error) int {
	if r, ok := uplink.RefusalOf(err); ok && r.Permanent() {
		return exitRefused
	}
	switch code {
	case codeUsage, "config_invalid", "identity_source_invalid":
		return exitUsage
	case "state_locked", taskcatalog.CodeGPUHolderPresent, codeGPUNotLookedAt, codeGPUHealthUnknown, selfupdate.CodeUnderWay, selfupdate.CodePinned,
		selfupdate.CodeSlotInUse, selfupdate.CodeNotInSlot:
		return exitRefused
	case codeGPUNotFound, selfupdate.CodeNotStaged:
		return exitMissing
	}
	return exitFailed
}
