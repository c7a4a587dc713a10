package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/agent/health"
	"github.com/hostler/hostler/agent/journal"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/resolver"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Codes of GPUs that are not healthy.
const (
	codeGPUNotHealthy    taskcatalog.Code = "gpu_not_healthy"
	codeGPUHealthUnknown taskcatalog.Code = "gpu_health_unknown"
)

func newGPUHealth(look func(ctx context.Context, stateDir string) (taskcatalog.HealthReport, error)) *cobra.Command {
	var format, stateDir string
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Say which GPUs are healthy, degraded or failed, and by which value",
		Long: `Health asks each vendor's library for all GPUs, three times in a row, reads the
kernel's log of this boot, and judges what it found by the rules of the node's
resolver profiles, or by those that are compiled in. It reads and changes nothing,
talks to no broker, and may run beside a tenant. It keeps nothing either: rules that
ask for more looks in a row, or compare with an earlier time, say nothing here.

The exit status is 0 only if every GPU on the bus is healthy: 1 if one is degraded
or has failed, and 3 if nobody can tell.`,
		Example: "  hostler-agent gpu health\n  hostler-agent gpu health -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			r, err := look(cmd.Context(), stateDir)
			if err != nil {
				return err
			}
			if err := show(cmd.OutOrStdout(), r, format, func(p *page) { healthPage(p, r) }); err != nil {
				return err
			}
			return unhealthy(r)
		},
	}
	cmd.Flags().StringVar(&stateDir, "state-dir", agent.DefaultStateDir, "the agent's `DIR`, for the node's resolver profiles")
	formatFlag(cmd, &format)
	return cmd
}

func healthPage(p *page, r taskcatalog.HealthReport) {
	p.row("GPU", "UUID", "HEALTH", "FIELD", "VALUE", "BECAUSE")
	row := func(address, uuid string, verdict taskcatalog.HealthVerdict, all []taskcatalog.HealthReason) {
		if len(all) == 0 {
			p.row(address, uuid, string(verdict), "-", "-", "-")
		}
		for _, x := range all {
			p.row(address, uuid, string(x.Verdict), x.Field, x.Value, x.Message)
		}
	}
	for _, g := range r.GPUs {
		row(g.PCIAddress, dash(g.UUID), g.Verdict, g.Reasons)
	}
	for _, x := range r.Reasons {
		row("all", "-", x.Verdict, []taskcatalog.HealthReason{x})
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// unhealthy is the command's error.
func unhealthy(r taskcatalog.HealthReport) error {
	var which []string
	for _, g := range r.GPUs {
		if g.Verdict != taskcatalog.HealthHealthy {
			which = append(which, g.PCIAddress+" "+string(g.Verdict))
		}
	}
	switch r.Verdict {
	case taskcatalog.HealthHealthy:
		return nil
	case taskcatalog.HealthUnknown:
		return taskcatalog.Errorf(codeGPUHealthUnknown, "nobody can tell how the GPUs are, for the reasons above: %s%s",
			strings.Join(which, ", "), rootHint())
	}
	return taskcatalog.Errorf(codeGPUNotHealthy, "not all GPUs are healthy, for the reasons above: %s", strings.Join(which, ", "))
}

// lookByHand looks at the GPUs of this machine, and keeps nothing.
func lookByHand(ctx context.Context, stateDir string) (taskcatalog.HealthReport, error) {
	m, err := machine.Open("/")
	if err != nil {
		return taskcatalog.HealthReport{}, err
	}
	defer func() { _ = m.Close() }()
	boot, err := m.BootID()
	if err != nil {
		return taskcatalog.HealthReport{}, err
	}
	dir, err := os.MkdirTemp("", "hostler-gpu-health-")
	if err != nil {
		return taskcatalog.HealthReport{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store := resolver.Open(filepath.Join(stateDir, "profiles"))
	rules := func() []profiles.HealthRule { return store.InForce().HealthRules() }
	w := health.New(m, newGPUHelper(), boot, filepath.Join(dir, "health.json"), rules, time.Now, journal.Plain(os.Stderr, zap.WarnLevel))
	return w.Once(ctx)
}
