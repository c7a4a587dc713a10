package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// formats are the values of -o.
var formats = []string{"table", "wide", "json", "yaml"}

// newRoot is the whole tree of commands.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "hostler",
		Short: "look after bare-metal GPU machines between two tenants",
		Long: `Hostler looks after bare-metal GPU machines between two tenants.

Results go to stdout, everything else to stderr. Exit status: 0 done, 1 failed, 2
bad usage, 3 refused by policy or state, 4 not found, 5 timed out waiting. hostler
terminal returns the exit status of the program on the node.

A NODE is an id, a unique prefix of an id, a hostname, or site/hostname. If several
nodes match, the command refuses and lists them.

Environment: HOSTLER_CONFIG names a client.yaml as --config does, HOSTLER_TOKEN
holds a token, NO_COLOR turns colours off.`,
		Example:       "  hostler --config /var/lib/hostler/client.yaml node list",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          group,

		Version:                    thisBuild().String(),
		SuggestionsMinimumDistance: 2,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains(formats, a.output) {
				return usage("cannot print as %q (-o takes table, wide, json or yaml)", a.output)
			}
			return nil
		},
	}
	rootFlags(a, root)
	root.Flags().Bool("version", false, "print this program's version")
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%v (see hostler help%s)", err, strings.TrimPrefix(c.CommandPath(), "hostler"))
	})
	root.SetHelpCommand(helpCommand(root))
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if a.helpErr = unknownCommand(c, args); a.helpErr == nil {
			help(c, args)
		}
	})
	root.AddCommand(nouns(a)...)
	suggestReflexes(root)
	a.complete(root)
	return root
}

// nouns are the commands below the root, in the order of the help.
func nouns(a *app) []*cobra.Command {
	return []*cobra.Command{
		loginCommand(a),
		contextCommand(a),
		doctorCommand(a),
		versionCommand(a),
		statusCommand(a),
		freezeCommand(a),
		unfreezeCommand(a),
		eventsCommand(a),
		capacityCommand(a),
		nodeCommand(a),
		findCommand(a),
		siteCommand(a),
		skuCommand(a),
		runCommand(a),
		onboardingCommand(a),
		decommissionCommand(a),
		storageCleanupCommand(a),
		reconcileCommand(a),
		driftCommand(a),
		taskCommand(a),
		terminalCommand(a),
		recordingCommand(a),
		resolverCommand(a),
		operationCommand(a),
		operationDefinitionCommand(a),
		cleanPolicyCommand(a),
		agentReleaseCommand(a),
		registryCredentialCommand(a),
		artifactSignerCommand(a),
		sourceCredentialCommand(a),
		clusterCommand(a),
		maintenanceCommand(a),
		repairCommand(a),
		rolloutCommand(a),
		allocationCommand(a),
		orgCommand(a),
		projectCommand(a),
		memberCommand(a),
		keyCommand(a),
		quotaCommand(a),
		reservationCommand(a),
		webhookCommand(a),
		usageCommand(a),
		tokenCommand(a),
		auditCommand(a),
		certificateCommand(a),
		trustCommand(a),
		completionCommand(a),
	}
}

// rootFlags gives every command the flags of all commands.
func rootFlags(a *app, root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", "", "client file of the broker, `FILE`")
	f.StringVar(&a.context, "context", "", "context to use, `NAME`, instead of the current one")
	f.StringVarP(&a.output, "output", "o", "table",
		"`FORMAT` of the result: table, wide (tables with all columns and whole ids), json or yaml")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print only ids, without notes and progress")
	f.StringVar(&a.tokenFile, "token-file", "", "read the token from `FILE`, mode 0600, or - for stdin")
	f.StringVar(&a.token, "token", "", "the token itself, for trials only: everybody on this machine can see it")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// reflexes are the words of other programs, by the equivalent command of this program.
var reflexes = map[string][]string{
	"node":   {"get", "describe", "ls"},
	"task":   {"ps"},
	"events": {"logs"},
	"audit":  {"logs"},
	"list":   {"get", "ls", "ps"},
	"show":   {"get", "describe"},
	"remove": {"delete", "rm"},
	"revoke": {"delete", "rm"},
}

// suggestReflexes makes cobra suggest commands for the words of other programs.
func suggestReflexes(c *cobra.Command) {
	c.SuggestFor = reflexes[c.Name()]
	for _, below := range c.Commands() {
		suggestReflexes(below)
	}
}

// usageTemplate omits from every page but the first the text that all pages share.
const usageTemplate = `Usage:
  {{if and .HasAvailableSubCommands (eq .Use .Name)}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}
{{- if .HasExample}}

Examples:
{{.Example}}{{end}}
{{- if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
{{- if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
{{- if .HasParent}}

hostler help lists the flags that every command takes.{{end}}
`

// group is the behaviour of a command that only has subcommands: without arguments help, and a
// refusal of an unknown word.
func group(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	more := ""
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		more = "did you mean " + strings.Join(near, " or ") + "? "
	}
	return usage("%s has no command %q (%ssee hostler help%s)", c.CommandPath(), args[0], more,
		strings.TrimPrefix(c.CommandPath(), "hostler"))
}

// unknownCommand refuses --help for a word that is not a command: cobra would show the help of the
// parent command and exit with 0.
func unknownCommand(c *cobra.Command, args []string) error {
	if !c.HasAvailableSubCommands() || c.Name() == "help" {
		return nil
	}
	words := c.Flags().Args() // the words before --help
	if i := slices.IndexFunc(args, func(s string) bool { return s == "--help" || s == "-h" }); len(words) == 0 && i >= 0 &&
		i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
		words = args[i+1:]
	}
	if len(words) == 0 {
		return nil
	}
	return group(c, words)
}

// noun makes a command that only holds other commands.
func noun(name, short, example string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: name, Short: short, Example: example,
		Args: cobra.ArbitraryArgs, RunE: group, SuggestionsMinimumDistance: 2,
	}
	c.AddCommand(verbs...)
	return c
}

// exactly requires the named arguments, no more and no fewer. A name that ends in … stands for one
// or more.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		many := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "…")
		if len(args) == len(names) || many && len(args) > len(names) {
			return nil
		}
		want := "no arguments"
		if len(names) > 0 {
			want = strings.Join(names, " ")
		}
		return usage("%s takes %s, and got %d (see hostler help%s)", c.CommandPath(), want, len(args),
			strings.TrimPrefix(c.CommandPath(), "hostler"))
	}
}

func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND …]",
		Short:   "show what a command does, with an example",
		Example: "  hostler help node create",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if c, _, err := root.Find(args); err == nil {
				for _, sub := range c.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, sub.Name())
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usage("there is no command %q (see hostler help)", strings.Join(args, " "))
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}
