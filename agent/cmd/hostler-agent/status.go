package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/taskcatalog"
)

func newStatus() *cobra.Command {
	var configFile, format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the running agent stands with its broker",
		Long: `Status shows what the running agent last wrote of itself. It fails with status 1
where no agent runs or where the agent is not connected.`,
		Example: "  hostler-agent status\n  hostler-agent status -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "table" && format != "json" && format != "yaml" {
				return usage("-o %q is none of table, json, yaml", taskcatalog.Clean(format, 20))
			}
			file, err := agent.LoadFile(configFile)
			if err != nil {
				return err
			}
			s, err := agent.ReadStatus(file.StatusFile)
			if err != nil {
				return err
			}
			if err := show(cmd.OutOrStdout(), s, format, time.Now()); err != nil {
				return err
			}
			return s.Judge(time.Now())
		},
	}
	cmd.Flags().StringVar(&configFile, "config", agent.DefaultConfigFile, "the agent's config `FILE`")
	cmd.Flags().StringVarP(&format, "output", "o", "table", "`FORMAT`: table, json or yaml")
	return cmd
}

func show(w io.Writer, s *agent.Status, format string, now time.Time) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	switch format {
	case "json":
		_, err = fmt.Fprintf(w, "%s\n", raw)
		return err
	case "yaml":
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			return err
		}
		raw, err := yaml.Marshal(fields)
		if err != nil {
			return err
		}
		_, err = w.Write(raw)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, taskcatalog.Clean(value, taskcatalog.MaxText))
		}
	}
	line("phase", string(s.Phase))
	if s.Problem != nil {
		line("problem", s.Problem.Code+": "+s.Problem.Message)
	}
	line("node", s.NodeID)
	line("broker", s.Broker)
	line("last contact", ago(s.LastContact, now))
	line("certificate until", stamp(s.CertificateUntil))
	line("trust bundle", fmt.Sprintf("version %d", s.TrustVersion))
	line("allow", s.Allow)
	line("drained", map[bool]string{true: "yes", false: "no"}[s.Drained])
	for _, id := range s.Allocations {
		line("allocation", id)
	}
	for _, r := range s.Running {
		line("running", fmt.Sprintf("%s %s %s", r.TaskID, r.Type, r.Step))
	}
	line("results to send", fmt.Sprint(s.Unreported))
	line("root file system", fmt.Sprintf("%d MiB free", s.RootFreeBytes>>20))
	line("agent", fmt.Sprintf("%s, pid %d, %s", s.Version, s.PID, ago(s.UpdatedAt, now)))
	return t.Flush()
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
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: `  hostler-agent version`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "hostler-agent %s (%s)\n", version, commit)
			return err
		},
	}
}
