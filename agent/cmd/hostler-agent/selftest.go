package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// codeSelfTest is the code of a program that cannot serve on this machine.
const codeSelfTest = selfupdate.CodeSelfTest

func newSelfTest() *cobra.Command {
	var configFile, format string
	cmd := &cobra.Command{
		Use:   "self-test",
		Short: "Say whether this program could serve here, and what it is",
		Long: `Self-test reads the configuration and the node's identity, and makes all that the
program has compiled in. It changes nothing, asks nobody, and may be run beside the
agent that serves: an update runs it in the new version before it switches.`,
		Example: "  hostler-agent self-test\n  /usr/lib/hostler-agent/versions/1.4.0/hostler-agent self-test -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			said, err := selfTest(configFile)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), said, format, func(p *page) {
				p.line("version", said.Version)
				p.line("commit", said.Commit)
				p.line("state", fmt.Sprintf("reads forms %d to %d, writes %d", said.State.ReadsMin, said.State.ReadsMax, said.State.Writes))
				p.line("task types", fmt.Sprint(len(said.Types)))
			})
		},
	}
	cmd.Flags().StringVar(&configFile, "config", agent.DefaultConfigFile, "the agent's config `FILE`")
	formatFlag(cmd, &format)
	return cmd
}

func selfTest(configFile string) (*selfupdate.SelfTest, error) {
	file, err := agent.LoadFile(configFile)
	if err != nil {
		return nil, err
	}
	for _, typ := range taskcatalog.All() {
		if _, ok := tasks.Lookup(typ.Name, typ.Version); !ok {
			return nil, taskcatalog.Errorf(codeSelfTest, "cannot carry out %s: it has no handler", typ.ID())
		}
		if _, err := typ.DecodeParams([]byte(typ.Example)); err != nil {
			return nil, taskcatalog.Errorf(codeSelfTest, "cannot read params of %s: %v", typ.ID(), err)
		}
	}
	if profiles.Minimal().Digest() == "" {
		return nil, taskcatalog.Errorf(codeSelfTest, "the resolver profiles that are compiled in are none")
	}
	if _, err := os.Stat(file.StateDir); err == nil {
		state, err := identity.Open(file.StateDir, time.Now)
		if err != nil {
			return nil, err
		}
		defer func() { _ = state.Close() }()
		if err := state.Load(); err != nil {
			return nil, err
		}
	}
	return &selfupdate.SelfTest{Version: version, Commit: commit, State: release.State, Types: taskcatalog.IDs()}, nil
}
