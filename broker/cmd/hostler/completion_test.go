package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hostler/hostler/broker/api/client"
)

// tab LINE WANT types a line and two tabs into a real bash on a terminal, with the completion script
// of the file hostler.bash and without any start-up file. It checks that WANT then stands there.
func tab(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: tab LINE WANT")
	}
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	shell := exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "-i")
	shell.Dir = ts.Getenv("WORK")
	shell.Env = []string{"TERM=dumb", "PS1="}
	for _, name := range []string{"PATH", "HOME", "HOSTLER_CONFIG", "GORACE"} {
		shell.Env = append(shell.Env, name+"="+ts.Getenv(name))
	}
	terminal, err := pty.StartWithSize(shell, &pty.Winsize{Rows: 40, Cols: 200})
	ts.Check(err)
	defer func() { _ = terminal.Close(); stop(); _ = shell.Wait() }()
	var seen bytes.Buffer
	until := func(what string) bool { // a read ends at the latest when stop ends the shell
		buf := make([]byte, 4096)
		for !strings.Contains(seen.String(), what) {
			n, err := terminal.Read(buf)
			seen.Write(buf[:n])
			if err != nil {
				return false
			}
		}
		return true
	}
	say := func(text string) {
		_, err := io.WriteString(terminal, text)
		ts.Check(err)
	}
	// The words are split here, so that what bash echoes of them is not taken for its answer.
	say("source hostler.bash; PS1='re''ady> '\n")
	if !until("ready> ") {
		ts.Fatalf("bash never got ready: %s", seen.String())
	}
	seen.Reset()
	say(args[0] + "\t\t")
	if neg {
		say("#end") // comes after all that the tabs brought
		if !until("#end") || strings.Contains(seen.String(), args[1]) {
			ts.Fatalf("%q stands there, or the end never comes: %s", args[1], seen.String())
		}
		return
	}
	if !until(args[1]) {
		ts.Fatalf("%q never comes: %s", args[1], seen.String())
	}
}

// Every argument and flag that names something of the broker is completed.
func TestWhatTheBrokerKnowsIsCompleted(t *testing.T) {
	known := []string{"NODE", "SITE", "ID", "TASK", "TYPE", "SKU", "--node", "--nodes", "--site", "--status", "--sku"}
	walk(tree(), func(c *cobra.Command) {
		a := &app{}
		for _, name := range strings.Fields(c.Use)[1:] {
			name = strings.Trim(name, "[]")
			if a.byName(c, name) == nil && slices.Contains(known, name) && !made(c, name) {
				t.Errorf("%s: %s is not completed", c.CommandPath(), name)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if a.byName(c, "--"+f.Name) == nil && slices.Contains(known, "--"+f.Name) {
				t.Errorf("%s: --%s is not completed", c.CommandPath(), f.Name)
			}
		})
	})
}

// made reports whether a command makes the thing that its argument names.
func made(c *cobra.Command, name string) bool { return c.Name() == "create" && name == "SKU" }

// A broker that does not answer costs two seconds, and a completion that fails says nothing.
func TestACompletionIsBoundedAndSilent(t *testing.T) {
	file := newSilentBroker(t)
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		a := &app{surroundings: nowhere(&out, &errs), config: "/nowhere", token: "hso_seen"}
		c := &cobra.Command{}
		c.SetContext(t.Context())
		var began time.Time
		list, _ := a.offer(func(context.Context, *client.Client, []string, string) ([]candidate, error) {
			return []candidate{{"never", ""}}, nil
		})(c, nil, "")
		if len(list) > 0 || errs.Len() > 0 || out.Len() > 0 {
			t.Errorf("without a client file: %v, said %q %q", list, errs.String(), out.String())
		}
		a.config, a.token, began = file, "", time.Now()
		list, directive := a.offer(func(ctx context.Context, _ *client.Client, _ []string, _ string) ([]candidate, error) {
			<-ctx.Done()
			return nil, errors.New("gone")
		})(c, nil, "")
		if took := time.Since(began); len(list) > 0 || took != completionLimit || errs.Len() > 0 {
			t.Errorf("%v after %v, said %q", list, took, errs.String())
		}
		if directive != cobra.ShellCompDirectiveNoFileComp {
			t.Errorf("directive %d: files are offered for want of nodes", directive)
		}
	})
}

func TestACompletionOffersNoMoreThanAPersonReads(t *testing.T) {
	var errs bytes.Buffer
	a := &app{surroundings: nowhere(&bytes.Buffer{}, &errs), config: newSilentBroker(t)}
	many := make([]candidate, 5000)
	for i := range many {
		many[i] = candidate{"gpu\x1b[2J", "a\tb"}
	}
	got := a.found(t.Context(), func(context.Context, *client.Client, []string, string) ([]candidate, error) { return many, nil }, nil, "gpu")
	if len(got) != completionRows {
		t.Errorf("%d candidates", len(got))
	}
	if strings.ContainsAny(got[0], "\x1b\n") || strings.Count(got[0], "\t") != 1 {
		t.Errorf("offers %q", got[0])
	}
}

// newSilentBroker writes the client file of a broker that nobody runs.
func newSilentBroker(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	b := newFakeBroker(t)
	b.answer("GET /nodes", http.StatusOK, `{"items":[]}`)
	if err := b.writeClient(dir); err != nil {
		t.Fatal(err)
	}
	return dir + "/client.yaml"
}
