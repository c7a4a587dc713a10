package main

import (
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/hostler/hostler/broker/server"
)

// now is the program's clock, storeNow the clock of its leases, and machineNow the clock that
// drives the database's time. Tests of the program set them ahead.
var (
	now        = time.Now
	storeNow   func() time.Time
	machineNow = time.Now
)

func newServe() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "serve",
		Short: "run the broker",
		Long: `Runs the broker until SIGTERM. The first start makes the CA, the keys, the database,
an admin token (DIR/admin.token) and DIR/client.yaml, which hostler --config reads.
Prints one line "ready" as soon as the broker answers.`,
		Example: "  hostler-broker serve --data-dir /var/lib/hostler-broker --agent-listen 0.0.0.0:7441 --advertise broker.example",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.load(c); err != nil {
				return err
			}
			vault, err := s.keeper()
			if err != nil {
				return err
			}
			log := newLog(os.Stderr)
			defer func() { _ = log.Sync() }()
			watchdog, err := daemon.SdWatchdogEnabled(false)
			if err != nil {
				watchdog = 0 // WATCHDOG_USEC is for another process, or not a number
			}
			b, err := server.New(c.Context(), server.Config{
				DataDir: s.DataDir, Listen: s.Listen, AgentListen: s.AgentListen, Advertise: s.Advertise, RelayListen: s.RelayListen,
				RelayAdvertise: s.RelayAdvertise, Database: s.DB, Vault: vault, Events: s.Events.Policy, NATS: s.Events.NATS,
				Webhooks: s.Events.Webhooks, PolicyEngine: s.Operations.OPA,
				Archives: s.Diagnostics, History: s.History, OIDC: s.OIDC, Proxies: s.Proxies,
				Version: version, Now: now, StoreNow: storeNow, Machine: machineNow, Log: log, Ready: c.OutOrStdout(), Watchdog: watchdog,
				Notify: func(state string) { _, _ = daemon.SdNotify(false, state) },
			})
			if err != nil {
				return err
			}
			return b.Run(c.Context())
		},
	}
	s.where(c)
	c.Flags().StringVar(&s.Listen, "listen", "", "address of the operators' listener (default "+server.DefaultListen+")")
	c.Flags().StringVar(&s.AgentListen, "agent-listen", "", "address of the agents' listener (default "+server.DefaultAgentListen+")")
	c.Flags().StringVar(&s.Secrets, "secrets", "",
		"where secrets are kept: file (the default) or vault://HOST:PORT/MOUNT[/PREFIX], with the login in the config file")
	c.Flags().StringVar(&s.Advertise, "advertise", "", "HOST[:PORT] under which nodes reach the agents' listener")
	c.Flags().StringVar(&s.RelayListen, "relay-listen", "",
		"address of the terminal relay, on UDP and on TCP (default port "+server.DefaultRelayPort+" of the agents' listener's address)")
	c.Flags().StringVar(&s.RelayAdvertise, "relay-advertise", "",
		"HOST[:PORT] under which nodes reach the relay of this replica (default the host of --advertise)")
	return c
}

// newLog writes lines for people on a terminal, and JSON for log collectors. A broker that cannot
// log still serves.
func newLog(f *os.File) *zap.Logger {
	config := zap.NewProductionEncoderConfig()
	config.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoder := zapcore.NewJSONEncoder(config)
	if term.IsTerminal(int(f.Fd())) {
		config.EncodeTime = zapcore.TimeEncoderOfLayout(time.TimeOnly)
		encoder = zapcore.NewConsoleEncoder(config)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(f), zapcore.InfoLevel))
}
