package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/journal"
	"github.com/hostler/hostler/agent/uplink"
)

func newEnroll() *cobra.Command {
	var configFile, broker, tokenFile, caSHA256, maasID string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "enroll --broker URL --token-file FILE|- --ca-sha256 FINGERPRINT",
		Short: "Make this machine a node with a one-time token",
		Long: `Enroll makes a key on this machine, sends a certificate request with the token, and
stores the certificate that it receives. Repeating the command after a lost answer
has the same result. The token is read from a file or, with -, from standard input:
never from the command line, where others could read it.`,
		Example: `  hostler-agent enroll --broker https://broker.example:7441 --ca-sha256 3f1d… --token-file - < token`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, f := range []struct{ name, value string }{{"broker", broker}, {"token-file", tokenFile}, {"ca-sha256", caSHA256}} {
				if f.value == "" {
					return usage("cannot enroll: --%s is missing (see hostler-agent enroll --help)", f.name)
				}
			}
			token, err := identity.ReadToken(tokenFile)
			if err != nil {
				return usage("%v", err)
			}
			config, err := wiring(configFile, journal.Plain(os.Stderr, zap.WarnLevel))
			if err != nil {
				return err
			}
			given := identity.Provided("the command line", identity.Bootstrap{
				Broker: broker, CASHA256: caSHA256, Token: token,
				MAASSystemID: maasID,
			}, "")
			m, err := enroll(cmd.Context(), config, given, timeout)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "enrolled as node %s\n", m.NodeID)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&configFile, "config", agent.DefaultConfigFile, "the agent's config `FILE`")
	f.StringVar(&broker, "broker", "", "the broker's `URL`, https://HOST:PORT")
	f.StringVar(&tokenFile, "token-file", "", "`FILE` that holds the token, or - for standard input")
	f.StringVar(&caSHA256, "ca-sha256", "", "`FINGERPRINT` of the broker's root certificate, as the broker prints it")
	f.StringVar(&maasID, "maas-system-id", "", "this machine's `ID` in MAAS, if the token is bound to one")
	f.DurationVar(&timeout, "timeout", time.Minute, "how long to retry while the broker does not answer")
	return cmd
}

// enroll retries until the broker has accepted or refused, or timeout is over.
func enroll(ctx context.Context, c agent.Config, from identity.Source, timeout time.Duration) (*identity.Member, error) {
	return backoff.Retry(ctx, func() (*identity.Member, error) {
		m, err := agent.Enroll(ctx, c, from)
		if err == nil {
			return m, nil
		}
		switch code, _ := describe(err); code {
		case uplink.CodeUnreachable, uplink.CodeUnavailable, uplink.CodeClockWrong:
			return nil, err
		}
		return nil, backoff.Permanent(err)
	}, backoff.WithMaxElapsedTime(timeout), backoff.WithNotify(func(err error, _ time.Duration) {
		c.Log.Warn("not enrolled yet, retrying: " + err.Error())
	}))
}
