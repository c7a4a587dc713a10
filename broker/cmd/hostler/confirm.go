package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// yesFlag adds --yes to a command that destroys something.
func yesFlag(c *cobra.Command) { c.Flags().BoolP("yes", "y", false, "do not ask for confirmation") }

func saidYes(c *cobra.Command) bool {
	yes, _ := c.Flags().GetBool("yes")
	return yes
}

// confirm asks before something is destroyed. If nobody can be asked, confirm refuses: a script
// must pass --yes.
func (a *app) confirm(c *cobra.Command, format string, args ...any) error {
	if saidYes(c) {
		return nil
	}
	question := taskcatalog.Clean(fmt.Sprintf(format, args...), 1000)
	if !a.ask {
		return broker.Errorf(broker.Invalid, "confirmation_required", "cannot ask without a terminal: %s (use --yes)", question)
	}
	return a.askYes("%s", question)
}

// confirmOnTerminal asks before long or lasting work that a script may begin without --yes: the
// question appears only on a terminal.
func (a *app) confirmOnTerminal(c *cobra.Command, format string, args ...any) error {
	if saidYes(c) || !a.ask {
		return nil
	}
	return a.askYes(format, args...)
}

// askYes asks a person, on a terminal.
func (a *app) askYes(format string, args ...any) error {
	_, _ = fmt.Fprintf(a.err, "%s [y/N] ", taskcatalog.Clean(fmt.Sprintf(format, args...), 1000))
	line, err := a.answer()
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return broker.Errorf(broker.Refused, "not_confirmed", "nothing was changed: the answer was not yes")
}

// reasonFlag adds --reason, whose text is recorded in the audit log.
func reasonFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "reason", "", "reason, for the audit log")
}

// needReason refuses an empty reason.
func needReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return broker.Errorf(broker.Invalid, "reason_missing", "this command needs a reason for the audit log (use --reason)")
	}
	return nil
}
