package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/taskcatalog/release"
)

func newStatus(at place) *cobra.Command {
	var configFile, format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the running agent and its connection to the broker",
		Long: `Status shows the last report of the running agent about itself, the number of
terminal sessions, and this node's versions of the agent. The sessions and the
versions are read from the machine, and are shown even if no agent runs. The exit
status is 1 if no agent runs, or if the agent is not connected.`,
		Example: "  hostler-agent status\n  hostler-agent status -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			file, err := agent.LoadFile(configFile)
			if err != nil {
				return err
			}
			s, notRunning := agent.ReadStatus(file.StatusFile)
			sessions, err := unit.Here(at.sessions)
			if err != nil {
				return err
			}
			full := struct {
				*agent.Status
				Terminals []string      `json:"terminals"` // sessions, which run without an agent
				Update    *versionsView `json:"update,omitempty"`
			}{s, sessions, lookHere(at.lib, file.StateDir)}
			if err := show(cmd.OutOrStdout(), full, format, func(p *page) {
				if s != nil {
					statusPage(p, s, time.Now())
				}
				p.line("terminals", fmt.Sprint(len(full.Terminals)))
				if full.Update != nil {
					updatePage(p, full.Update)
				}
			}); err != nil {
				return err
			}
			if s == nil {
				return notRunning
			}
			return s.Judge(time.Now())
		},
	}
	cmd.Flags().StringVar(&configFile, "config", agent.DefaultConfigFile, "the agent's config `FILE`")
	formatFlag(cmd, &format)
	return cmd
}

func statusPage(p *page, s *agent.Status, now time.Time) {
	p.line("phase", string(s.Phase))
	if s.Problem != nil {
		p.line("problem", s.Problem.Code+": "+s.Problem.Message)
	}
	p.line("node", s.NodeID)
	p.line("broker", s.Broker)
	p.line("last contact", ago(s.LastContact, now))
	p.line("certificate until", stamp(s.CertificateUntil))
	p.line("trust bundle", fmt.Sprintf("version %d", s.TrustVersion))
	p.line("allow", s.Allow)
	p.line("drained", map[bool]string{true: "yes", false: "no"}[s.Drained])
	for _, id := range s.Allocations {
		p.line("allocation", id)
	}
	for _, r := range s.Running {
		p.line("running", fmt.Sprintf("%s %s %s", r.TaskID, r.Type, r.Step))
	}
	p.line("results to send", fmt.Sprint(s.Unreported))
	p.line("root file system", fmt.Sprintf("%d MiB free", s.RootFreeBytes>>20))
	p.line("agent", fmt.Sprintf("%s, pid %d, %s", s.Version, s.PID, ago(s.UpdatedAt, now)))
}

func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return now.Sub(t).Round(time.Second).String() + " ago"
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func newVersion() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and the state formats that it reads",
		Example: "  hostler-agent version\n  hostler-agent version -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			self := release.Self{
				Version: version, Commit: commit, OS: runtime.GOOS, Arch: runtime.GOARCH, StateSchema: release.State,
				Protocol: release.Protocol,
			}
			return show(cmd.OutOrStdout(), self, format, func(p *page) { p.row(fmt.Sprintf("hostler-agent %s (%s)", version, commit)) })
		},
	}
	formatFlag(cmd, &format)
	return cmd
}
