package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/test/manual"
)

// The program has one command without subcommands, and does not use cobra: the test makes a cobra
// command from the program's own flags.
func TestThePagesNameOnlyFlagsThatThereAre(t *testing.T) {
	var o options
	c := &cobra.Command{Use: "hostler-verify"}
	c.Flags().AddGoFlagSet(o.flags())
	manual.Check(t, "../../..", c, 2)
}

func TestTheHelpNamesEachFlag(t *testing.T) {
	var o options
	o.flags().VisitAll(func(f *flag.Flag) {
		if !strings.Contains(usageText, "\n  --"+f.Name+" ") {
			t.Errorf("the help does not explain --%s", f.Name)
		}
	})
}
