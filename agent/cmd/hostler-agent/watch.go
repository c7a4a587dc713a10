package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/agent/journal"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/agent/systemd"
	"github.com/hostler/hostler/taskcatalog"
)

// updates joins this program with the versions on the node. It returns nil if the program runs from
// no slot, and if the folder of updates is unusable: an agent that cannot update itself is still
// the way to this machine.
func updates(config *agent.Config, lib, executable, configFile string) *agent.Updates {
	running := selfupdate.SlotOf(lib, executable)
	if running == "" {
		return nil
	}
	store, err := selfupdate.OpenStore(lib, config.StateDir, config.Now)
	if err != nil {
		config.Log.Error("this agent cannot update itself until it is restarted", zap.Error(err))
		return nil
	}
	return &agent.Updates{
		Store: store, Systemd: systemd.Bus{}, Running: running, Invocation: os.Getenv("INVOCATION_ID"),
		Test: selfupdate.RunSelfTest(configFile),
	}
}

// build describes this program.
func build() taskcatalog.AgentBuild {
	b := taskcatalog.AgentBuild{Commit: commit}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return b
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err == nil {
		b.SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	return b
}

func newWatch() *cobra.Command {
	var configFile string
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Switch to a version on trial, and return to the previous one if it fails",
		Long: `Watch is run by the unit hostler-agent-watch, from the version that is known to
work. Watch makes the switch that an update has prepared, watches the new version,
and confirms it or returns to the previous version. Without a trial, watch tidies up
and ends. After a loss of power at any point, watch resumes.`,
		Example: `  hostler-agent watch --config /etc/hostler-agent/config.yaml`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := journal.New(os.Stderr, zap.InfoLevel)
			config, err := wiring(configFile, log)
			if err != nil {
				return err
			}
			store, err := selfupdate.OpenStore(taskcatalog.AgentFolder, config.StateDir, config.Now)
			if err != nil {
				return err
			}
			defer func() { _ = store.Close() }()
			boot, err := config.Machine.BootID()
			if err != nil {
				return err
			}
			w := selfupdate.Watcher{
				Store: store, StateDir: config.StateDir, Parts: agent.StateParts(config.Now), Systemd: systemd.Bus{}, BootID: boot,
				Log:   log,
				Reach: agent.ContactProbe(config), Proof: config.UpdateWatch, Sleep: sleep,
			}
			if err := w.Probe(); err != nil {
				return err
			}
			if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
				log.Debug("cannot notify systemd", zap.Error(err))
			}
			return w.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&configFile, "config", agent.DefaultConfigFile, "the agent's config `FILE`")
	return cmd
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
