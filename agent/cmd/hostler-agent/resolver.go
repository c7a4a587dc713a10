package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/facts"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// codeProfilesInvalid is the code of a set with problems.
const codeProfilesInvalid taskcatalog.Code = "profiles_invalid"

func newResolver() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resolver",
		Short:   "Check resolver profiles",
		Example: "  hostler-agent resolver check nvidia.yaml generic.yaml",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newResolverCheck("/", factsHere))
	return cmd
}

// factsHere returns this machine's keys, for matching rules.
func factsHere(ctx context.Context) (map[string]string, error) {
	m, err := machine.Open("/")
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Close() }()
	f, err := facts.Gather(ctx, m, survey(newGPUHelper()))
	return f.Keys, err
}

// checked is the result of resolver check.
type checked struct {
	OK       bool               `json:"ok"`
	Files    []string           `json:"files"`
	Rules    int                `json:"rules"`
	Commands int                `json:"commands"`
	Digest   string             `json:"digest,omitempty"`
	Rule     string             `json:"rule,omitempty"` // with --here: the winning rule on this machine
	Problems []profiles.Problem `json:"problems"`
}

func newResolverCheck(root string, keys func(context.Context) (map[string]string, error)) *cobra.Command {
	var format string
	var here bool
	cmd := &cobra.Command{
		Use:   "check FILE|DIR...",
		Short: "List all problems of a set of resolver profiles",
		Long: `Check reads the given files and folders as one set, and lists every problem with
file, line and code. With --here it also checks what depends on this machine, for
the rule that applies here: that each program exists, and that the program and every
folder above it belong to root and are writable by nobody else. Check runs none of
the programs. The exit status is 1 if there is a problem.`,
		Example: "  hostler-agent resolver check /etc/hostler-agent/profiles\n  hostler-agent resolver check --here -o json nvidia.yaml generic.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s needs a file or a folder (see %s --help)", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			files, err := profiles.Read(args...)
			if err != nil {
				return usage("%v", err)
			}
			set, problems := profiles.Parse(files...)
			said := checked{Files: names(files), Problems: problems}
			if set != nil {
				said.Rules, said.Commands, said.Digest = len(set.HardwareProfiles), len(set.CommandProfiles), set.Digest()
				if here {
					if err := judgeHere(cmd.Context(), root, keys, set, &said); err != nil {
						return err
					}
				}
			}
			said.OK = len(said.Problems) == 0
			if err := showChecked(cmd.OutOrStdout(), said, format); err != nil {
				return err
			}
			if !said.OK {
				return taskcatalog.Errorf(codeProfilesInvalid, "the set of profiles has %d problems", len(said.Problems))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&here, "here", false, "also check what depends on this machine")
	formatFlag(cmd, &format)
	return cmd
}

func judgeHere(
	ctx context.Context, root string, keys func(context.Context) (map[string]string, error), set *profiles.Set, said *checked,
) error {
	found, err := keys(ctx)
	if err != nil {
		return err
	}
	runner, err := command.New(root, time.Now)
	if err != nil {
		return err
	}
	defer func() { _ = runner.Close() }()
	said.Rule, said.Problems = runner.CheckMachine(set, found)
	return nil
}

func names(files []profiles.File) []string {
	all := make([]string, len(files))
	for i, f := range files {
		all[i] = f.Name
	}
	return all
}

func showChecked(w io.Writer, said checked, format string) error {
	if said.Problems == nil {
		said.Problems = []profiles.Problem{} // a list, also to programs
	}
	return show(w, said, format, func(p *page) {
		for _, problem := range said.Problems {
			p.row(problem.String())
		}
		if said.OK {
			p.line("rules", fmt.Sprint(said.Rules))
			p.line("command profiles", fmt.Sprint(said.Commands))
			p.line("digest", said.Digest)
			p.line("rule here", said.Rule)
		}
	})
}
