package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
)

// nowhere are surroundings without a terminal, a home or a broker.
func nowhere(out, errs *bytes.Buffer) processEnv {
	return processEnv{
		in: strings.NewReader(""), out: out, err: errs, getenv: func(string) string { return "" },
		now: func() time.Time { return testNow }, width: func() int { return 80 }, outWidth: func() int { return 0 },
	}
}

// walk visits every command that a person can see.
func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			walk(sub, visit)
		}
	}
}

func tree() *cobra.Command {
	root := newRoot(&app{})
	root.InitDefaultHelpCmd()
	return root
}

func TestEveryCommandHasAnExampleThatNamesIt(t *testing.T) {
	walk(tree(), func(c *cobra.Command) {
		if c.Example == "" || c.Short == "" {
			t.Errorf("%s has no example or no summary", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(line)
			if len(words) == 0 || !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: example line %q", c.CommandPath(), line)
			}
		}
		if name := c.CommandPath(); c.HasParent() && !strings.Contains(c.Example, name) {
			if !strings.Contains(c.Example, " "+strings.TrimPrefix(name, "hostler ")) {
				t.Errorf("the example of %s does not show it: %q", name, c.Example)
			}
		}
	})
}

// An example is a command line that the program takes, as far as flags and
// arguments go.
func TestExamplesAreWellFormed(t *testing.T) {
	walk(tree(), func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			for _, part := range strings.Split(strings.TrimSpace(line), " && ") {
				part, _, _ = strings.Cut(part, " > ")
				part, _, _ = strings.Cut(part, " | ")
				part = strings.TrimSuffix(strings.TrimPrefix(part, "source <("), ")")
				words := shellSplit(part)
				if words[0] != "hostler" {
					t.Errorf("%s: %q is no command of ours", c.CommandPath(), part)
					continue
				}
				root := tree()
				cmd, rest, err := root.Find(words[1:])
				if err != nil || !cmd.Runnable() {
					t.Errorf("%q: %v", part, err)
					continue
				}
				if err := cmd.ParseFlags(rest); err != nil {
					t.Errorf("%q: %v", part, err)
				} else if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
					t.Errorf("%q: %v", part, err)
				}
			}
		}
	})
}

// shellSplit splits at spaces outside single quotes.
func shellSplit(s string) []string {
	var words []string
	quoted, word := false, ""
	for _, r := range s + " " {
		switch {
		case r == '\'':
			quoted = !quoted
		case r == ' ' && !quoted:
			if word != "" {
				words = append(words, word)
			}
			word = ""
		default:
			word += string(r)
		}
	}
	return words
}

func TestHelpOfEveryCommandIsTheGolden(t *testing.T) {
	var all bytes.Buffer
	walk(tree(), func(c *cobra.Command) {
		words := strings.Fields(c.CommandPath())[1:]
		var out, errs bytes.Buffer
		if status := run(context.Background(), append([]string{"help"}, words...), nowhere(&out, &errs)); status != 0 {
			t.Errorf("help %v: status %d, %s", words, status, errs.String())
		}
		all.WriteString("$ hostler help" + strings.TrimPrefix(c.CommandPath(), "hostler") + "\n" + out.String() + "\n")
	})
	path := filepath.Join("testdata", "help.golden")
	if *update {
		if err := os.WriteFile(path, all.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(all.Bytes(), want) {
		t.Errorf("help is not the golden (go test -update, and read the diff)")
	}
}

// The contract, on which scripts rely, states the requirements of these commands.
func TestTheCommandsOfTheContractAreThere(t *testing.T) {
	var have []string
	walk(tree(), func(c *cobra.Command) { have = append(have, strings.TrimPrefix(c.CommandPath(), "hostler ")) })
	for _, want := range []string{
		"login", "context list", "context use", "context show", "doctor", "version", "status", "freeze", "freeze status", "unfreeze", "events",
		"node create", "node list", "node show", "node timeline", "node facts", "node label",
		"node drain", "node resume", "node quarantine", "node activate", "node retire", "node remove",
		"node baseline show", "node baseline diff", "node baseline accept", "node baseline retake",
		"task types", "task describe", "task enqueue", "task list", "task show", "task cancel", "task watch",
		"site create", "site list", "site show", "site update", "site disable", "site enable",
		"site profile create", "site profile list", "site profile show", "site profile update", "site profile set-default",
		"site credentials", "site probe", "site roce import", "site roce list", "site roce delete",
		"site power-override add", "site power-override list", "site power-override remove",
		"sku create", "sku list", "sku show", "sku update",
		"resolver validate", "resolver push", "resolver show", "resolver rollback", "resolver explain",
		"agent-release publish", "agent-release list",
		"rollout start", "rollout status", "rollout list", "rollout watch", "rollout pause", "rollout resume", "rollout abort", "audit list", "audit verify", "audit export", "trust show", "trust rotate",
		"completion", "help",
	} {
		if !slices.Contains(have, want) {
			t.Errorf("hostler %s is missing", want)
		}
	}
}

func TestCompletionScriptsComeForThreeShells(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var out, errs bytes.Buffer
		if status := run(context.Background(), []string{"completion", shell}, nowhere(&out, &errs)); status != 0 || !strings.Contains(out.String(), "hostler") {
			t.Errorf("%s: status %d, %d bytes, %s", shell, status, out.Len(), errs.String())
		}
	}
	var out, errs bytes.Buffer
	if status := run(context.Background(), []string{"completion", "powershell"}, nowhere(&out, &errs)); status != exitUsage {
		t.Errorf("powershell: status %d", status)
	}
}

func TestAnErrorDecidesTheExitStatus(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitDone},
		{os.ErrClosed, exitFailed},
		{broker.Errorf(broker.Internal, "internal", "x"), exitFailed},
		{broker.Errorf(broker.TooMany, "too_many", "x"), exitFailed},
		{broker.Errorf(broker.Unavailable, "broker_unreachable", "x"), exitFailed},
		{broker.Errorf(broker.Invalid, "bad_params", "x"), exitUsage},
		{usage("x"), exitUsage},
		{broker.Errorf(broker.Refused, "turnover_owed", "x"), exitRefused},
		{broker.Errorf(broker.Unauthorized, "token_unknown", "x"), exitRefused},
		{broker.Errorf(broker.Forbidden, "role_insufficient", "x"), exitRefused},
		{broker.Errorf(broker.NotFound, "node_not_found", "x"), exitNotFound},
		{timedOut("x"), exitTimeout},
	} {
		var errs bytes.Buffer
		a := &app{processEnv: nowhere(&bytes.Buffer{}, &errs)}
		if got := a.end(c.err); got != c.want {
			t.Errorf("%v: status %d, want %d", c.err, got, c.want)
		}
		if lines := strings.Count(errs.String(), "\n"); c.err != nil && (lines != 1 || !strings.HasPrefix(errs.String(), "error: ")) {
			t.Errorf("%v: wrote %q", c.err, errs.String())
		}
	}
}

func TestAnErrorIsOneLineWhateverItSays(t *testing.T) {
	var errs bytes.Buffer
	a := &app{processEnv: nowhere(&bytes.Buffer{}, &errs)}
	a.end(broker.Errorf(broker.Refused, "x\x1b[2J", "one\ntwo\x1b[31m\u202ethree %s", strings.Repeat("A", 1<<20)))
	got := errs.String()
	if strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\x1b\u202e") || len(got) > 3000 {
		t.Errorf("wrote %.300q", got)
	}
}

// What a failure tells people to do they can do, in the words that it uses.
func TestTheNextActionOfAFailureIsACommand(t *testing.T) {
	root := tree()
	named := regexp.MustCompile(`hostler ((?:[a-z-]+ )*[a-z-]+)`)
	actions := []string{""}
	for _, act := range onboardingActions {
		actions = append(actions, act.name)
	}
	for _, h := range broker.FailureHandlings {
		for _, m := range named.FindAllStringSubmatch(h.NextAction(), -1) {
			if c, left, err := root.Find(strings.Fields(m[1])); err != nil || len(left) > 0 || !c.Runnable() {
				t.Errorf("%s names hostler %s, which is no command", h.Class, m[1])
			}
		}
		if first, _, _ := strings.Cut(strings.NewReplacer(",", " ", ";", " ").Replace(h.Then), " "); !slices.Contains(actions, first) {
			t.Errorf("%s says %q, and %s is no action on a run", h.Class, h.Then, first)
		}
	}
}

// What people are told to run for a run is a command. A rollout has no node, so that nobody
// is told to show it.
func TestEachKindOfRunHasItsCommand(t *testing.T) {
	for _, k := range broker.RunKinds {
		for _, verb := range []string{"resume", "show"} {
			found, rest, err := newRoot(&app{}).Find(append(strings.Fields(k.Noun), verb))
			if is := err == nil && len(rest) == 0 && found.Name() == verb; !is && (verb != "show" || k.Name != broker.RolloutKind) {
				t.Errorf("hostler %s %s is no command: %v, %q", k.Noun, verb, err, rest)
			}
		}
	}
}

// TestEveryListCommandPrintsItemsAndNext runs each command that lists, with -o json, against a
// broker that has nothing.
func TestEveryListCommandPrintsItemsAndNext(t *testing.T) {
	empty := newFakeBroker(t)
	empty.others = `{"items":[],"next":""}`
	config, lists := clientFileOf(t, empty), 0
	walk(tree(), func(c *cobra.Command) {
		if c.Name() != "list" && c.Name() != "types" {
			return
		}
		args := strings.Fields(c.CommandPath())[1:]
		for _, name := range strings.Fields(c.Use)[1:] {
			if name == strings.ToUpper(name) && !strings.HasPrefix(name, "[") {
				args = append(args, "x")
			}
		}
		if strings.HasPrefix(strings.Join(args, " "), "context ") {
			return // contexts are in the client file, not at the broker
		}
		if c.CommandPath() == "hostler member list" {
			args = append(args, "--org", "x") // a list of members is of a place
		}
		lists++
		var out, errs bytes.Buffer
		root := newRoot(&app{processEnv: nowhere(&out, &errs)})
		root.SetArgs(append(args, "--config", config, "-o", "json"))
		err := root.Execute()
		var got struct {
			Items json.RawMessage
			Next  *string
		}
		if jsonErr := json.Unmarshal(out.Bytes(), &got); err != nil || jsonErr != nil || len(got.Items) == 0 || got.Items[0] != '[' || got.Next == nil {
			t.Errorf("hostler %s: %v %v: %s", strings.Join(args, " "), err, jsonErr, out.Bytes())
		}
	})
	if lists < 20 {
		t.Errorf("ran %d commands that list, want at least 20", lists)
	}
}
