package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/coreos/go-systemd/v22/util"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/agent/facts"
	"github.com/hostler/hostler/agent/journal"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/systemd"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/taskcatalog"
)

func newRun() *cobra.Command {
	var configFile string
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "Serve as this node's agent until stopped",
		Example: `  hostler-agent run --config /etc/hostler-agent/config.yaml`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := journal.New(os.Stderr, zap.InfoLevel)
			config, err := wiring(configFile, log)
			if err != nil {
				return err
			}
			config.Notify = func(state string) {
				if _, err := daemon.SdNotify(false, state); err != nil {
					log.Debug("cannot notify systemd", zap.Error(err))
				}
			}
			if config.Watchdog, err = daemon.SdWatchdogEnabled(false); err != nil {
				log.Warn("cannot read the watchdog interval that systemd set", zap.Error(err))
			}
			config.Build = build()
			executable, err := os.Executable()
			if err != nil {
				return err
			}
			config.Terminals = terminals(&config, configFile, taskcatalog.AgentFolder, executable, util.IsRunningSystemd())
			config.Updates = updates(&config, taskcatalog.AgentFolder, executable,
				filepath.Join(config.ConfigDir, filepath.Base(configFile)))
			if config.Updates != nil {
				defer func() { _ = config.Updates.Store.Close() }()
			}
			a, err := agent.New(config)
			if err != nil {
				return err
			}
			log.Info("hostler-agent starts", zap.String("who", "agent"), zap.String("version", version),
				zap.String("allow", string(config.Allow)))
			err = a.Run(cmd.Context())
			if closed := a.Close(); err == nil {
				err = closed
			}
			return err
		},
	}
	cmd.Flags().StringVar(&configFile, "config", agent.DefaultConfigFile, "the agent's config `FILE`")
	return cmd
}

// wiring joins the parts with the machine of this process.
func wiring(configFile string, log *zap.Logger) (agent.Config, error) {
	configFile, err := filepath.Abs(configFile)
	if err != nil {
		return agent.Config{}, err
	}
	file, err := agent.LoadFile(configFile)
	if err != nil {
		return agent.Config{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		return agent.Config{}, fmt.Errorf("cannot read this machine's host name: %w", err)
	}
	m, err := machine.Open("/")
	if err != nil {
		return agent.Config{}, err
	}
	helper := newGPUHelper()
	return agent.Config{
		File: file, ConfigDir: filepath.Dir(configFile), Version: version, Hostname: host,
		Machine: m, Now: time.Now, Rand: rand.Reader, Log: log,
		Facts:    func(ctx context.Context) (taskcatalog.Facts, error) { return facts.Gather(ctx, m, survey(helper)) },
		GPU:      helper,
		Handlers: tasks.Lookup, Systemd: systemd.Bus{}, Notify: func(string) {},
	}, nil
}
