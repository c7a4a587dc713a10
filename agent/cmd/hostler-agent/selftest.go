package main

import (
	"context"
	"errors"
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

func newSelfTest(at place) *cobra.Command {
	var configFile, format string
	cmd := &cobra.Command{
		Use:   "self-test",
		Short: "Show whether this program could serve here, and its version",
		Long: `Self-test reads the configuration and the node's identity, and constructs everything
that is compiled into the program. On a node it also checks what the watcher of an
update needs: the decisions about versions, and systemd. Self-test changes nothing,
contacts nobody, and may run beside the serving agent: an update runs it in the new
version before it switches.`,
		Example: "  hostler-agent self-test\n  /usr/lib/hostler-agent/versions/1.4.0/hostler-agent self-test -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			said, err := selfTest(cmd.Context(), at, configFile)
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

func selfTest(ctx context.Context, at place, configFile string) (*selfupdate.SelfTest, error) {
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
		return nil, taskcatalog.Errorf(codeSelfTest, "this program has no compiled-in resolver profiles")
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
	if err := couldWatch(ctx, at, file.StateDir); err != nil {
		return nil, taskcatalog.Errorf(codeSelfTest, "cannot watch an update: %v", err)
	}
	return &selfupdate.SelfTest{Version: version, Commit: commit, State: release.State, Types: taskcatalog.IDs()}, nil
}

// lookTime limits the query to systemd: it is less than the time of a whole self-test.
const lookTime = 15 * time.Second

// couldWatch reads everything that watch reads, if the node was updated before. Write access is not
// tested, because it depends on the node and not on the program: the watcher itself tests it before
// it reports READY.
func couldWatch(ctx context.Context, at place, stateDir string) error {
	if _, err := os.Stat(selfupdate.Dir(stateDir)); err != nil {
		return nil
	}
	store, err := selfupdate.OpenStore(at.lib, stateDir, time.Now)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	if _, err := store.Load(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	u, err := at.systemd.Look(ctx, selfupdate.AgentUnit)
	if err == nil && u.Active == "" {
		err = errors.New("systemd does not report it")
	}
	if err != nil {
		return fmt.Errorf("systemd, asked for %s: %w", selfupdate.AgentUnit, err)
	}
	return nil
}
