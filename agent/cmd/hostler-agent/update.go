package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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

func newUpdate(at place) *cobra.Command {
	var configFile string
	cmd := &cobra.Command{
		Use:   "update",
		Short: "Show and steer this node's versions of the agent",
		Long: `Update shows the versions of the agent on this node, what is being tried, what became
of earlier updates, and which versions are skipped because they failed here. What
can be done by hand is done here, too. It needs no broker.`,
		Example: "  hostler-agent update show\n  hostler-agent update revert --reason 'GPUs are not found'",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&configFile, "config", agent.DefaultConfigFile, "the agent's config `FILE`")
	open := func() (*selfupdate.Store, agent.File, error) {
		file, err := agent.LoadFile(configFile)
		if err != nil {
			return nil, file, err
		}
		store, err := selfupdate.OpenStore(at.lib, file.StateDir, time.Now)
		return store, file, err
	}
	// on calls do with the node's versions.
	on := func(do func(*cobra.Command, *selfupdate.Store, string) (string, error)) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error {
			store, _, err := open()
			if err != nil {
				return err
			}
			defer func() { _ = store.Close() }()
			said, err := do(cmd, store, args[0])
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
			}
			return err
		}
	}
	var format, reason string
	showCmd := &cobra.Command{
		Use:     "show",
		Short:   "Show versions, the trial under way, earlier updates and skipped versions",
		Example: "  hostler-agent update show\n  hostler-agent update show -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			store, _, err := open()
			if err != nil {
				return err
			}
			defer func() { _ = store.Close() }()
			seen, err := look(store)
			return errors.Join(show(cmd.OutOrStdout(), seen, format, func(p *page) { updatePage(p, seen) }), err)
		},
	}
	formatFlag(showCmd, &format)
	pin := &cobra.Command{
		Use: "pin VERSION", Short: "Have a version skipped on this node",
		Example: "  hostler-agent update pin 1.4.0 --reason 'breaks our NICs'", Args: one("VERSION"),
		RunE: on(func(_ *cobra.Command, s *selfupdate.Store, v string) (string, error) {
			if reason == "" {
				return "", usage("pin needs --reason")
			}
			return "version " + v + " is skipped", s.PinByHand(v, reason)
		}),
	}
	unpin := &cobra.Command{
		Use: "unpin VERSION", Short: "Let a version in again that was skipped",
		Example: "  hostler-agent update unpin 1.4.0", Args: one("VERSION"),
		RunE: on(func(_ *cobra.Command, s *selfupdate.Store, v string) (string, error) {
			return "version " + v + " is let in again", s.Unpin(v)
		}),
	}
	forget := &cobra.Command{
		Use: "forget SLOT", Short: "Remove a version from the disk that nothing needs",
		Example: "  hostler-agent update forget 1.2.0", Args: one("SLOT"),
		RunE: on(func(_ *cobra.Command, s *selfupdate.Store, slot string) (string, error) {
			return "removed " + slot, s.Forget(slot)
		}),
	}
	revert := &cobra.Command{
		Use: "revert", Short: "Put the version before back, now",
		Long: `Revert ends a trial that is under way, or switches to the version that was good
before this one. That is watched as any update is.`,
		Example: "  hostler-agent update revert --reason 'GPUs are not found'", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason == "" {
				return usage("revert needs --reason")
			}
			store, file, err := open()
			if err != nil {
				return err
			}
			defer func() { _ = store.Close() }()
			to, err := byHand(at, store, file, configFile).RevertByHand(cmd.Context(), taskcatalog.ByHand+time.Now().UTC().Format("20060102T150405Z"), reason)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "putting %s back (hostler-agent update show)\n", to)
			}
			return err
		},
	}
	for _, c := range []*cobra.Command{pin, revert} {
		c.Flags().StringVar(&reason, "reason", "", "`WHY`, for whoever looks later")
	}
	cmd.AddCommand(showCmd, revert, pin, unpin, forget)
	return cmd
}

func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("%s needs one %s (see %s --help)", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

// byHand is an updater for a person: it steers versions, and fetches none.
func byHand(at place, store *selfupdate.Store, file agent.File, configFile string) *selfupdate.Updater {
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
			Store: store, StateDir: file.StateDir, Parts: agent.StateParts(time.Now), Test: selfupdate.RunSelfTest(configFile), Progress: func(string, int, string) {},
			Forms: func() ([]int, error) { return formsHere(file) },
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

// seen is the output of update show.
type seen struct {
	Slots      []taskcatalog.UpdateSlot    `json:"slots"`
	Trial      *selfupdate.Trial           `json:"trial,omitempty"`
	Pins       []selfupdate.Pin            `json:"pins"`
	Deliveries []taskcatalog.AgentDelivery `json:"deliveries"` // the latest last
	// Problem is why the update record cannot be read: then the slots are those on disk, and the
	// rest is unknown.
	Problem string `json:"problem,omitempty"`
}

// look returns everything that can be read. If a part cannot be read, the error says why.
func look(store *selfupdate.Store) (*seen, error) {
	st, unread := store.Load()
	problem := ""
	if unread != nil {
		st, problem = store.OnDisk(), unread.Error()
	}
	slots, err := store.Slots(st)
	return &seen{slots, st.Trial, append([]selfupdate.Pin{}, st.Pins...), append([]taskcatalog.AgentDelivery{}, st.Deliveries...), problem}, errors.Join(unread, err)
}

// lookHere is look for the command status: nil if this agent does not update itself, or if the
// caller may not read the versions.
func lookHere(lib, stateDir string) *seen {
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	store, err := selfupdate.OpenStore(lib, stateDir, time.Now)
	if err != nil {
		return nil
	}
	defer func() { _ = store.Close() }()
	s, _ := look(store) // s.Problem names the unreadable part
	return s
}

func updatePage(p *page, s *seen) {
	if s.Problem != "" {
		p.row("versions", "what was decided of them is not known", s.Problem)
	}
	for _, slot := range s.Slots {
		is := ""
		for _, word := range []struct {
			so   bool
			word string
		}{{slot.Current, "current"}, {slot.Good, "known to work"}, {slot.Previous, "before it"}, {slot.Pinned, "skipped"}} {
			if word.so && is != "" {
				is += ", "
			}
			if word.so {
				is += word.word
			}
		}
		p.row("version", slot.Name, is)
	}
	if t := s.Trial; t != nil {
		p.row("on trial", t.ToVersion, fmt.Sprintf("%s for %d s, from %s (%s)", t.Step, t.WatchedSeconds, t.FromVersion, t.ID))
	}
	for _, pin := range s.Pins {
		p.row("skipped", pin.Version, fmt.Sprintf("%s: %s (since %s)", pin.Reason, pin.Message, stamp(pin.At)))
	}
	for i := len(s.Deliveries) - 1; i >= 0; i-- {
		d := s.Deliveries[i]
		why := ""
		if d.Reason != "" {
			why = fmt.Sprintf(", %s: %s", d.Reason, d.Message)
		}
		p.row("update", d.From+" to "+d.To, fmt.Sprintf("%s at %s in %.1f s%s (%s)", d.Outcome, stamp(d.At), d.SwitchSeconds, why, d.ID))
	}
}

// here is the machine of this process.
func here() place {
	return place{lib: taskcatalog.AgentFolder, systemd: systemd.Bus{}, sessions: unit.RuntimeDir}
}
