package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/agent/systemd"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/taskcatalog"
)

// place is the location of the agent's versions, and the asking version.
type place struct {
	lib     string
	running string // slot; empty: the current one
	systemd selfupdate.Systemd
	// sessions is the folder with a directory for each terminal session.
	sessions string
}

// versions steers the agent's versions on this node, by hand.
type versions struct {
	place
	configFile string
}

func newUpdate(at place) *cobra.Command {
	v := &versions{place: at}
	cmd := &cobra.Command{
		Use:   "update",
		Short: "Show and change this node's versions of the agent",
		Long: `Update shows the versions of the agent on this node, the version on trial, the
results of earlier updates, and the versions that are skipped because they failed
here. Its subcommands also change versions by hand. Update needs no broker.`,
		Example: "  hostler-agent update show\n  hostler-agent update revert --reason 'GPUs are not found'",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&v.configFile, "config", agent.DefaultConfigFile, "the agent's config `FILE`")
	cmd.AddCommand(v.showCommand(), v.revertCommand(), v.pinCommand(), v.unpinCommand(), v.forgetCommand())
	return cmd
}

func (v *versions) open() (*selfupdate.Store, agent.File, error) {
	file, err := agent.LoadFile(v.configFile)
	if err != nil {
		return nil, file, err
	}
	store, err := selfupdate.OpenStore(v.lib, file.StateDir, time.Now)
	return store, file, err
}

// on calls do with the node's versions and the command's argument, and prints the answer.
func (v *versions) on(do func(s *selfupdate.Store, arg string) (string, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		store, _, err := v.open()
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		said, err := do(store, args[0])
		if err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
		}
		return err
	}
}

func (v *versions) pinCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "pin VERSION", Short: "Skip a version on this node",
		Example: "  hostler-agent update pin 1.4.0 --reason 'breaks our NICs'", Args: oneArg("VERSION"),
		RunE: v.on(func(s *selfupdate.Store, version string) (string, error) {
			if reason == "" {
				return "", usage("pin needs --reason")
			}
			return "version " + version + " is skipped", s.PinByHand(version, reason)
		}),
	}
	reasonFlag(cmd, &reason)
	return cmd
}

func (v *versions) unpinCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unpin VERSION", Short: "Allow a skipped version again",
		Example: "  hostler-agent update unpin 1.4.0", Args: oneArg("VERSION"),
		RunE: v.on(func(s *selfupdate.Store, version string) (string, error) {
			return "version " + version + " is allowed again", s.Unpin(version)
		}),
	}
}

func (v *versions) forgetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "forget SLOT", Short: "Remove an unneeded version from the disk",
		Example: "  hostler-agent update forget 1.2.0", Args: oneArg("SLOT"),
		RunE: v.on(func(s *selfupdate.Store, slot string) (string, error) {
			return "removed " + slot, s.Forget(slot)
		}),
	}
}

func (v *versions) revertCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "revert", Short: "Return to the previous version now",
		Long: `Revert ends a trial in progress, or switches to the last good version before the
present one. The switch is watched like any update.`,
		Example: "  hostler-agent update revert --reason 'GPUs are not found'", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason == "" {
				return usage("revert needs --reason")
			}
			store, file, err := v.open()
			if err != nil {
				return err
			}
			defer func() { _ = store.Close() }()
			to, err := manualUpdater(v.place, store, file, v.configFile).RevertByHand(cmd.Context(),
				taskcatalog.ByHand+time.Now().UTC().Format("20060102T150405Z"), reason)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "returning to %s (hostler-agent update show)\n", to)
			}
			return err
		},
	}
	reasonFlag(cmd, &reason)
	return cmd
}

func reasonFlag(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "`REASON`, kept on the node")
}

func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("%s needs one %s (see %s --help)", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

// manualUpdater is an updater for a person: it steers versions, and fetches none.
func manualUpdater(at place, store *selfupdate.Store, file agent.File, configFile string) *selfupdate.Updater {
	running := at.running
	if running == "" {
		running = store.Current()
	}
	st, _ := store.Load()
	v := running
	if st != nil && st.Slots[running].Version != "" {
		v = st.Slots[running].Version
	}
	return &selfupdate.Updater{
		Stager: selfupdate.Stager{
			Store: store, StateDir: file.StateDir, Parts: agent.StateParts(time.Now), Test: selfupdate.RunSelfTest(configFile),
			Progress: func(string, int, string) {},
			Forms:    func() ([]int, error) { return formsHere(file) },
		},
		Systemd: at.systemd, Log: zap.NewNop(), Running: running, Version: v,
		Contact: func() time.Duration { return contactAge(file.StatusFile) },
	}
}

// formsHere are the forms of the node's state: from the running agent's status, because the agent
// locks its ledger; or from the files if no agent runs.
func formsHere(file agent.File) ([]int, error) {
	if s, err := agent.ReadStatus(file.StatusFile); err == nil && len(s.StateForms) > 0 && s.Judge(time.Now()) == nil {
		return s.StateForms, nil
	}
	form, err := ledger.FormIn(file.StateDir)
	if err != nil {
		return nil, err
	}
	return agent.FormsIn(file, form)
}

// contactAge is the time since the running agent's last contact; negative: never.
func contactAge(statusFile string) time.Duration {
	s, err := agent.ReadStatus(statusFile)
	if err != nil || s.LastContact.IsZero() {
		return -1
	}
	return max(time.Since(s.LastContact), 0)
}

// thisMachine is the machine of this process.
func thisMachine() place {
	return place{lib: taskcatalog.AgentFolder, systemd: systemd.Bus{}, sessions: unit.RuntimeDir}
}
