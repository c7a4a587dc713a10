package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
)

func (v *versions) showCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show versions, the trial in progress, earlier updates and skipped versions",
		Example: "  hostler-agent update show\n  hostler-agent update show -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			store, _, err := v.open()
			if err != nil {
				return err
			}
			defer func() { _ = store.Close() }()
			seen, err := look(store)
			return errors.Join(show(cmd.OutOrStdout(), seen, format, func(p *page) { updatePage(p, seen) }), err)
		},
	}
	formatFlag(cmd, &format)
	return cmd
}

// versionsView is the output of update show.
type versionsView struct {
	Slots      []taskcatalog.UpdateSlot    `json:"slots"`
	Trial      *selfupdate.Trial           `json:"trial,omitempty"`
	Pins       []selfupdate.Pin            `json:"pins"`
	Deliveries []taskcatalog.AgentDelivery `json:"deliveries"` // the latest last
	// Problem is why the update record cannot be read: then the slots are those on disk, and the
	// rest is unknown.
	Problem string `json:"problem,omitempty"`
}

// look returns everything that can be read. If a part cannot be read, the error says why.
func look(store *selfupdate.Store) (*versionsView, error) {
	st, unread := store.Load()
	problem := ""
	if unread != nil {
		st, problem = store.OnDisk(), unread.Error()
	}
	slots, err := store.Slots(st)
	return &versionsView{
		slots, st.Trial, append([]selfupdate.Pin{}, st.Pins...), append([]taskcatalog.AgentDelivery{}, st.Deliveries...),
		problem,
	}, errors.Join(unread, err)
}

// lookHere is look for the command status: nil if this agent does not update itself, or if the
// caller may not read the versions.
func lookHere(lib, stateDir string) *versionsView {
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

func updatePage(p *page, s *versionsView) {
	if s.Problem != "" {
		p.row("versions", "the state file of updates cannot be read", s.Problem)
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
