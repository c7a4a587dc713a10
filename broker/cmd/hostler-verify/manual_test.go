package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/test/manual"
)

// The program has one command without words below it, and no cobra: the test makes
// cobra's command of the flags that the program itself reads.
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
