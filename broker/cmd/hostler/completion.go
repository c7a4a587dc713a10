package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Bounds of one completion.
const (
	completionPatience = 2 * time.Second
	completionRows     = 200  // candidates offered
	completionRead     = 5000 // rows read
)

// plainWord is a word that means itself in every shell. Words come from nodes as well, and bash
// inserts what several candidates begin with unquoted: cobra's script evaluates it at the next tab.
var plainWord = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$`)

// candidate is a word that a completion offers, with what a person wants to know about it.
type candidate struct{ word, about string }

// source finds candidates. before are the arguments in front of the word. A source may ignore the
// word: what does not begin with it is not offered.
type source func(ctx context.Context, remote *client.Client, before []string, word string) ([]candidate, error)

// complete gives every command below c its completions, by the names of its arguments and flags.
// What has no completion offers nothing: files are offered only where a file is wanted.
func (a *app) complete(c *cobra.Command) {
	c.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	c.Flags().VisitAll(func(f *pflag.Flag) { a.completeFlag(c, f) })
	c.PersistentFlags().VisitAll(func(f *pflag.Flag) { a.completeFlag(c, f) })
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 {
		c.ValidArgsFunction = a.argumentsOf(c)
	}
	for _, below := range c.Commands() {
		a.complete(below)
	}
}

func (a *app) completeFlag(c *cobra.Command, f *pflag.Flag) {
	if _, has := c.GetFlagCompletionFunc(f.Name); has || f.Value.Type() == "bool" {
		return
	}
	if fill := a.byName(c, "--"+f.Name); fill != nil {
		_ = c.RegisterFlagCompletionFunc(f.Name, fill)
	} else if name, _ := pflag.UnquoteUsage(f); namesFile(name) {
		_ = c.RegisterFlagCompletionFunc(f.Name, offerFiles)
	}
}

// argumentsOf completes each argument of a command by its name in the usage line; nil for a command
// without arguments.
func (a *app) argumentsOf(c *cobra.Command) cobra.CompletionFunc {
	var fills []cobra.CompletionFunc
	many := false
	for _, name := range strings.Fields(c.Use)[1:] {
		if name = strings.Trim(name, "[]"); strings.HasPrefix(name, "-") {
			break
		}
		if name == "…" {
			many = true
			break
		}
		fill := a.byName(c, name)
		switch {
		case fill == nil && namesFile(name):
			fill = offerFiles
		case fill == nil:
			fill = cobra.NoFileCompletions
		}
		fills = append(fills, fill)
	}
	if len(fills) == 0 {
		return nil
	}
	if c.Name() == "create" {
		fills[len(fills)-1] = cobra.NoFileCompletions // the name of what is made is new
	}
	return func(c *cobra.Command, before []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		n := len(before)
		if many {
			n = min(n, len(fills)-1)
		}
		if n >= len(fills) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return fills[n](c, before, word)
	}
}

// byName is the completion of an argument, or of a flag with its dashes; nil if there is none. What
// an ID is depends on the noun of the command.
func (a *app) byName(c *cobra.Command, name string) cobra.CompletionFunc {
	if c.HasParent() {
		if s := sources[c.Parent().Name()+" "+name]; s != nil {
			return a.offer(s)
		}
		if words := words[c.Parent().Name()+" "+name]; words != nil {
			return offerWords(words)
		}
	}
	if s := sources[name]; s != nil {
		return a.offer(s)
	}
	switch {
	case words[name] != nil:
		return offerWords(words[name])
	case name == "--context", c.CommandPath() == "hostler context use" && name == "NAME":
		return a.offerContexts
	}
	return nil
}

// namesFile reports whether the name of an argument, or of a flag's value, is that of a file.
func namesFile(name string) bool {
	return strings.Contains(name, "FILE") || strings.Contains(name, "DIR") || name == "PROGRAM"
}

func offerFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// offerWords completes with words that this program knows. In a list with commas only the first word
// is completed: cobra's script compares quoted words, and bash quotes a comma.
func offerWords(list []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
}

// offer completes with what the broker answers. A completion is bounded in time and in rows, asks
// for nothing, writes nothing, and offers nothing where anything fails.
func (a *app) offer(find source) cobra.CompletionFunc {
	return func(c *cobra.Command, before []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := within(c.Context(), a.patience)
		defer cancel()
		done := make(chan []cobra.Completion, 1)
		go func() { done <- a.found(ctx, find, before, word) }() // reading the token may block
		select {
		case out := <-done:
			return out, cobra.ShellCompDirectiveNoFileComp
		case <-ctx.Done():
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

func (a *app) found(ctx context.Context, find source, before []string, word string) []cobra.Completion {
	if a.tokenFile == "-" { // stdin belongs to the person who types
		return nil
	}
	quiet := &app{processEnv: a.processEnv, config: a.config, context: a.context, tokenFile: a.tokenFile, token: a.token, quiet: true}
	remote, err := quiet.connect()
	if err != nil {
		return nil
	}
	list, err := find(ctx, remote, before, word)
	if err != nil {
		return nil
	}
	return offered(list, word)
}

// offered are the candidates that begin with a word. Each word is offered once, as bash takes what two
// lines begin with for a part of the word. A list from which something is missing makes the wrong
// word look unique: where too many match, or only one of several can be offered, none is.
func offered(list []candidate, word string) (out []cobra.Completion) {
	seen := map[string]bool{}
	for _, k := range list {
		if !strings.HasPrefix(k.word, word) || seen[k.word] {
			continue
		}
		if seen[k.word] = true; len(seen) > completionRows {
			return nil
		}
		if plainWord.MatchString(k.word) {
			out = append(out, cobra.CompletionWithDesc(k.word, render.Cell(k.about)))
		}
	}
	if len(out) == 1 && len(seen) > 1 {
		return nil
	}
	return out
}

func (a *app) offerContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir, err := a.contextDir()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := slices.DeleteFunc(namesIn(dir), func(name string) bool { return !contextName.MatchString(name) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// words are the words of arguments and flags that this program knows, by the name of the argument or
// flag; with the noun in front where they differ by noun.
var words = map[string][]string{
	"TYPE":                     typeNames(),
	"STEP":                     profiles.Steps(),
	"--class":                  failureClasses(),
	"task --type":              typeNames(),
	"node --status":            statusNames(),
	"allocation --status":      allocationStatusNames(),
	"maintenance --status":     {"planned", "open", "closed", "cancelled", "missed"},
	"maintenance --tenant":     {"stays", "leaves"},
	"task --status":            slices.Concat([]string{"open"}, taskStatuses),
	"decommission --status":    runStatusWords,
	"onboarding --status":      runStatusWords,
	"agent-lifecycle --status": runStatusWords,
	"run --status":             runStatusWords,
	"run --kind":               runKindNames(),
	"rollout --status":         runStatusWords,
	"terminal --status":        {"live", "opening", "open", "detached", "closing", "closed"},
	"profile --status":         {"active", "disabled"},
	"decommission --mode":      {"soft_reset", "reimage", "full_decommission"},
	"agent-lifecycle --mode":   {"reimage", "manual_install", "rebootstrap"},
	"--safety":                 {"idle", "after_drain", "forced"},
	"--scenario": {
		"bootstrap_install", "in_place_upgrade", "repair_reinstall", "certificate_repair", "config_repair",
		"drift_reconcile",
	},
	"operation --status":            operationStatusNames(),
	"operation-definition --status": {"draft", "active", "deprecated", "retired"},

	"--erase":     {"none", "quick", "secure"},
	"--scope":     {"local", "weka", "all"},
	"--severity":  {"critical", "high", "medium", "low"},
	"--channel":   {"stable", "candidate", "pinned"},
	"--bootstrap": {"cloud-init", "command"},
	"--arch":      {"amd64", "arm64"},
	"--use":       {"task", "trust", "statement", "root"},
}

var (
	taskStatuses = []string{
		string(broker.TaskQueued), string(broker.TaskDispatched), string(broker.TaskSucceeded),
		string(broker.TaskFailed), string(broker.TaskExpired), string(broker.TaskCanceled),
	}
	runStatusWords = slices.Concat([]string{"live", "failed"}, runStatuses)
)

func failureClasses() []string {
	var names []string
	for _, h := range broker.FailureHandlings {
		names = append(names, string(h.Class))
	}
	return names
}

func completionCommand(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish"} // allowed: whose completions are printed
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "print the completion script of a shell",
		Long: `Print the completion script of a shell. The script completes commands and flags, and
asks the broker for the names of nodes and sites and for the ids of runs, tasks and
sessions. It needs no other package. To switch completion on in every new shell:

  bash  echo 'source <(hostler completion bash)' >> ~/.bashrc
  zsh   hostler completion zsh > ~/.zsh/_hostler, with "fpath+=(~/.zsh)" and
        "autoload -U compinit && compinit" in ~/.zshrc
  fish  hostler completion fish > ~/.config/fish/completions/hostler.fish`,
		Example:   "  source <(hostler completion bash)",
		ValidArgs: shells,
		Args:      exactly("bash|zsh|fish"),
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash": // allowed: as above
				if err := c.Root().GenBashCompletionV2(a.out, true); err != nil {
					return err
				}
				_, err := io.WriteString(a.out, bashWords)
				return err
			case "zsh": // allowed: as above
				return c.Root().GenZshCompletion(a.out)
			case "fish":
				return c.Root().GenFishCompletion(a.out, true)
			}
			return usage("there is no completion for %q (bash, zsh and fish have one)", args[0])
		},
	}
}

// bashWords takes the place of a function of cobra's script that calls the package bash-completion,
// and guards the script. Bash splits a command line at = and : as well. The function joins these words
// again. In the guard \x60 is a backtick.
const bashWords = `
# Cobra's script evaluates the words of the command line, so that a tab would write into the file of a
# redirection, and run the command of $(…). A line with a word that does more than name a text or a
# variable gets no completion but that of files.
__hostler_guarded()
{
    local word name='[$][A-Za-z_][A-Za-z_0-9]*' plain
    plain=$'^([^$\x60"\'\\<>|&;()\n]|\\\\.|'$name$'|\'[^\']*\'|"([^"$\x60\\]|\\\\.|'$name$')*")*$'
    COMPREPLY=()
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        [[ $word =~ $plain ]] || return 1
    done
    __start_hostler "$@"
}

if [[ $(type -t compopt) == builtin ]]; then
    complete -o default -F __hostler_guarded hostler
else
    complete -o default -o nospace -F __hostler_guarded hostler
fi

# Used without the package bash-completion: sets words, cword, cur and prev, with the words that bash
# splits at = and : joined again.
__hostler_init_completion()
{
    COMPREPLY=()
    words=()
    cword=0
    local i word at=0 start=0 rest=$COMP_LINE blanks
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        blanks=${rest%%[![:space:]]*}
        rest=${rest:${#blanks}}
        if ((${#words[@]} > 0 && ${#blanks} == 0)) && [[ $word == [=:]* || ${words[${#words[@]}-1]} == *[=:] ]]; then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
            start=$((at + ${#blanks}))
        fi
        at=$((at + ${#blanks} + ${#word}))
        rest=${rest:${#word}}
        if ((i == COMP_CWORD)); then
            cword=$((${#words[@]} - 1))
            cur=${COMP_LINE:start:COMP_POINT-start}
            break
        fi
    done
    prev=
    if ((cword > 0)); then
        prev=${words[cword-1]}
    fi
}
`
