package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/attach"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

func terminalCommand(a *app) *cobra.Command {
	var s api.TerminalStart
	var command bool
	c := &cobra.Command{
		Use: "terminal NODE [--command PROGRAM [WORD …]]", Short: "open a terminal on a node; the node needs no open port",
		Long: `Open a terminal on a node, as the user of the node's allocation, or as --user.
Without --command the terminal runs the user's login shell. --command is followed by
a program and its arguments, to the end of the line; no shell interprets them. The
exit status is that of the program. The program gets a terminal of its own even if
stdin here is none; then the end of stdin is the end of the program's input.

Everything that the terminal shows is recorded. The site's policy decides who may
open a terminal, as whom, and for how long.

After Enter, ~. ends the session, ~d detaches and leaves the session running, ~?
lists these escapes, and ~~ types a ~. A lost connection is restored automatically,
without loss of typed input, for as long as the policy keeps the session.

Of the node's output, only drawing reaches your terminal: it sets no title and no
clipboard unless the policy permits that, and sends your terminal no queries except
those that programs need.`,
		Example: "  hostler terminal gpu-07\n  hostler terminal gpu-07 --user alice --reason 'ticket 4711'\n  hostler terminal gpu-07 --command nvidia-smi",
		Args:    cobra.ArbitraryArgs, SuggestionsMinimumDistance: 2,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && !command:
				return group(c, args)
			case command && c.ArgsLenAtDash() < 0: // no program follows the flag
				return usage("--command takes a program and its arguments")
			case command && c.ArgsLenAtDash() != 1:
				return usage("hostler terminal takes one NODE before --command")
			case !command && len(args) > 1:
				return usage("hostler terminal takes one NODE, and got %d arguments (a program comes after --command; see hostler help terminal)", len(args))
			}
			s.Node, s.Command = args[0], args[1:]
			return a.openTerminal(c.Context(), s)
		},
	}
	c.Flags().StringVar(&s.Username, "user", "", "account on the node (default: the allocation's user)")
	c.Flags().StringVar(&s.AllocationID, "allocation", "", "allocation `ID` whose user to use, if there are several")
	c.Flags().BoolVar(&command, "command", false, "run the program that follows instead of a shell; must be the last flag")
	reasonFlag(c, &s.Reason)
	c.AddCommand(terminalAttachCommand(a), terminalListCommand(a), terminalShowCommand(a), terminalCloseCommand(a))
	return c
}

// programsWords keeps the words after hostler terminal --command from being parsed as flags of
// hostler.
func programsWords(args []string) []string {
	begin := slices.Index(args, "terminal")
	if begin < 0 {
		return args
	}
	n := slices.IndexFunc(args[begin:], func(s string) bool { return s == "--command" || s == "--" })
	if n < 0 || args[begin+n] == "--" || begin+n+1 == len(args) {
		return args
	}
	return slices.Insert(slices.Clone(args), begin+n+1, "--")
}

func terminalAttachCommand(a *app) *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "attach ID", Short: "attach to a detached session, or to one attached elsewhere", Args: exactly("ID"),
		Long: `Attach to a session that was detached, with the last of its screen. Only the
operator who opened the session, or a platform_admin, may attach. If the session is
attached elsewhere, that side is detached.`,
		Example: "  hostler terminal attach ts-7k2m4q6s",
		RunE: func(c *cobra.Command, args []string) error {
			routes, err := a.terminals(c.Context(), project)
			if err != nil {
				return err
			}
			t, ticket, err := routes.ticket(c.Context(), args[0], a.terminalSize())
			if err != nil {
				return err
			}
			return a.attachTerminal(c.Context(), routes, t, ticket, false)
		},
	}
	terminalProjectFlag(c, &project)
	return c
}

// The forms that the node accepts from the local environment. Other values are left out, so that
// they do not make the node refuse the session.
var (
	termName    = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9+._-]{0,63}$`)
	localeValue = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.@:-]{0,63}$`)
	localeNames = []string{
		"LANG", "LC_ADDRESS", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES",
		"LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
	}
)

// environment is the part of the local environment that the program on the node gets.
func (a *app) environment() (term string, locale map[string]string) {
	if term = a.getenv("TERM"); !termName.MatchString(term) {
		term = ""
	}
	locale = map[string]string{}
	for _, name := range localeNames {
		if v := a.getenv(name); localeValue.MatchString(v) {
			locale[name] = v
		}
	}
	return term, locale
}

// ended reports the end of a session: the program's own exit status, or the reason.
func (a *app) ended(t *seenTerminal, e attach.End) error {
	where := fmt.Sprintf("session %s %s", t.ID, t.place())
	switch {
	case e.Left:
		waits := "until it ends"
		if t.DetachSeconds > 0 {
			waits = "for up to " + (time.Duration(t.DetachSeconds) * time.Second).String()
		}
		a.note("detached from %s, which continues %s (hostler terminal attach %s)", where, waits, t.ID)
		return nil
	case e.Asked && e.Status == nil:
		a.note("ended %s", where)
		return nil
	case e.Code != "terminal_exited" && !e.Asked:
		next := ""
		if !t.ofProject { // a project plays no recording
			next = fmt.Sprintf(" (hostler recording play %s)", t.ID)
		}
		return broker.Errorf(endKind(e.Code), cmp.Or(e.Code, "terminal_ended"), "%s has ended: %s%s", where,
			cmp.Or(e.Text, "no reason is known"), next)
	}
	if e.Signal != "" {
		a.note("the program was ended by signal %s", e.Signal)
	}
	if e.Status == nil || *e.Status == 0 {
		return nil
	}
	return programEnded(*e.Status)
}

// failures are the end codes of sessions that failed.
var failures = []string{
	"terminal_gone", "terminal_node_gone", "terminal_node_never_came", "terminal_never_came", "terminal_node_ended",
	"recording_failed", "relay_lost",
}

func endKind(code string) broker.Kind {
	if slices.Contains(failures, code) || strings.HasPrefix(code, "frame_") {
		return broker.Internal
	}
	return broker.Refused
}

// tty is the file of a stream that is a terminal.
func tty(stream any, isTerminal func(int) bool) *os.File {
	if f, ok := stream.(*os.File); ok && isTerminal(int(f.Fd())) {
		return f
	}
	return nil
}
