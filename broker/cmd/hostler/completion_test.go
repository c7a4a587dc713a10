package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
	"github.com/hostler/hostler/broker/clientfile"
)

// tab LINE WANT types a line and two tabs into a real bash on a terminal, with the completion script
// of the file hostler.bash and without any start-up file. It checks that WANT then stands there. Only
// the deadline of the whole test bounds it.
func tab(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: tab LINE WANT")
	}
	ctx, stop := context.WithCancel(ts.Value("context").(context.Context))
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
	say(args[0] + "\t\t#end")
	if !until("#end") { // it comes after all that the tabs brought
		ts.Fatalf("the tabs bring no end: %s", seen.String())
	}
	if strings.Contains(seen.String(), args[1]) == neg {
		ts.Fatalf("%q stands there is %v: %s", args[1], neg, seen.String())
	}
}

// Every noun completes its ids and statuses.
func TestWhatTheBrokerKnowsIsCompleted(t *testing.T) {
	known := []string{"ID", "--status"} // the others do not differ by noun
	walk(tree(), func(c *cobra.Command) {
		a := &app{}
		for _, name := range strings.Fields(c.Use)[1:] {
			name = strings.Trim(name, "[]")
			if a.byName(c, name) == nil && slices.Contains(known, name) {
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

// Every source asks the broker.
func TestEverySourceAsksTheBroker(t *testing.T) {
	b := newFakeBroker(t)
	a := &app{processEnv: nowhere(&bytes.Buffer{}, &bytes.Buffer{}), config: clientFileOf(t, b)}
	for name, find := range sources {
		asked := len(b.requests())
		a.found(t.Context(), find, []string{"dc1"}, "")
		if len(b.requests()) == asked {
			t.Errorf("%s asks for nothing", name)
		}
	}
}

// The name of what is made is new, so no name that is taken is offered.
func TestANewNameIsNotCompleted(t *testing.T) {
	b := newFakeBroker(t)
	b.answer("GET /skus", http.StatusOK, `{"items":[{"name":"h100"}]}`)
	a := &app{processEnv: nowhere(&bytes.Buffer{}, &bytes.Buffer{}), config: clientFileOf(t, b)}
	a.patience = time.Minute
	root := newRoot(a)
	for _, line := range [][]string{{"sku", "create"}, {"site", "create"}, {"site", "profile", "create"}} {
		c, _, err := root.Find(line)
		if err != nil {
			t.Fatal(err)
		}
		c.SetContext(t.Context())
		before := []string{"dc1"}[:strings.Count(c.Use, " ")-1]
		if got, _ := c.ValidArgsFunction(c, before, ""); len(got) > 0 || len(b.requests()) > 0 {
			t.Errorf("%s offers %q", c.CommandPath(), got)
		}
	}
}

// A selector all means every node, also where a node has this name.
func TestASelectorForAllSaysSo(t *testing.T) {
	b := newFakeBroker(t)
	b.answer("GET /nodes", http.StatusOK, `{"items":[{"id":"n-1","hostname":"all","site":"dc1","status":"active"}]}`)
	a := &app{processEnv: nowhere(&bytes.Buffer{}, &bytes.Buffer{}), config: clientFileOf(t, b)}
	if got := a.found(t.Context(), selectorCandidates, nil, "al"); !slices.Equal(got, []string{"all\tevery node"}) {
		t.Errorf("offers %q", got)
	}
}

// A broker that does not answer costs two seconds, and a completion that fails says nothing.
func TestACompletionIsBoundedAndSilent(t *testing.T) {
	file := clientFileOf(t, newFakeBroker(t))
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		var out, errs bytes.Buffer
		a := &app{processEnv: nowhere(&out, &errs), config: "/nowhere", token: "hso_seen"}
		a.patience = completionPatience
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
		list, directive := a.offer(func(context.Context, *client.Client, []string, string) ([]candidate, error) {
			<-release // as the reading of a token, which no context ends
			return nil, errors.New("gone")
		})(c, nil, "")
		if took := time.Since(began); len(list) > 0 || took != completionPatience || errs.Len() > 0 {
			t.Errorf("%v after %v, said %q", list, took, errs.String())
		}
		if directive != cobra.ShellCompDirectiveNoFileComp {
			t.Errorf("directive %d: files are offered for want of nodes", directive)
		}
	})
}

// A node decides on some of the words. Bash inserts what two of them begin with as it is, and cobra's
// script evaluates it at the next tab.
func TestACompletionOffersOnlyWordsThatMeanThemselves(t *testing.T) {
	for _, word := range []string{
		"a$(touch x)", "a`touch x`", "$HOME", "-x", "--yes", "_activeHelp_ x", "_activeHelp_x", "a b", "a\tb", "a\nb", "a\x1b[2J",
		"a;b", "a|b", "a>b", "a&b",
		"a'b", `a"b`, `a\b`, "a*", "a?", "a[b", "a{b", "a#b", "a!b", "a~b", "~a", "a(b", "a=b", "ä", "", strings.Repeat("a", 201),
	} {
		got := offered([]candidate{{"plain-1", "one"}, {word, "hostile"}, {"plain-2", "a\tb\x1b"}}, "")
		if !slices.Equal(got, []string{"plain-1\tone", "plain-2\ta\\x09b\\x1b"}) {
			t.Errorf("beside %q: offers %q", word, got)
		}
		if got := offered([]candidate{{"plain-1", "one"}, {word, "hostile"}}, ""); len(got) > 0 {
			t.Errorf("%q is not offered, and %q looks like the only word", word, got)
		}
	}
	for _, word := range []string{"gpu-07", "dc1/gpu-07", "GPU-1f_2", "6f1c0f9e-7d0b", "ghcr.io:443/x", "1.2.3+x", "me@dc1", "7"} {
		if got := offered([]candidate{{word, ""}}, word[:1]); len(got) != 1 {
			t.Errorf("%q is not offered", word)
		}
	}
}

// Two lines that begin with the same word and a space would complete to what a node says about it.
func TestACompletionOffersAWordOnce(t *testing.T) {
	if got := offered([]candidate{{"twin", "$(touch x) 1"}, {"twin", "$(touch x) 2"}}, "t"); len(got) != 1 {
		t.Errorf("offers %q", got)
	}
}

func TestACompletionOffersNoMoreThanAPersonReads(t *testing.T) {
	var many []candidate
	for i := range completionRows + 1 {
		many = append(many, candidate{fmt.Sprintf("gpu-%d", i), ""})
	}
	if got := offered(many[1:], "gpu"); len(got) != completionRows {
		t.Errorf("%d candidates", len(got))
	}
	if got := offered(many, "gpu"); len(got) > 0 {
		t.Errorf("%d of %d candidates, the others unseen", len(got), len(many))
	}
}

// A word is unique only among all that there are: where they are too many to be read, none is offered.
func TestACompletionReadsNoMoreThanItsBound(t *testing.T) {
	b := newFakeBroker(t)
	items := make([]string, completionRead+1)
	for i := range items {
		items[i] = fmt.Sprintf(`{"id":"t-%d","type":"node.facts","status":"queued"}`, i)
	}
	b.answer("GET /tasks", http.StatusOK, `{"items":[`+strings.Join(items, ",")+`]}`)
	a := &app{processEnv: nowhere(&bytes.Buffer{}, &bytes.Buffer{}), config: clientFileOf(t, b)}
	if got := a.found(t.Context(), taskCandidates, nil, "t-4999"); len(got) > 0 {
		t.Errorf("offers %q of %d tasks", got, len(items))
	}
}

// A word is unique only among all that there are.
func TestACompletionKnowsAllThatThereIs(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		item string // with %[1]s in place of the name
		find source
	}{
		"nodes":      {"/nodes", `{"id":"n-%[1]s","hostname":"%[1]s","site":"dc1","status":"active"}`, nodeCandidates},
		"tasks":      {"/tasks", `{"id":"%[1]s","type":"node.facts","status":"queued"}`, taskCandidates},
		"terminals":  {"/terminals", `{"id":"%[1]s","status":"open"}`, terminalCandidates},
		"recordings": {"/recordings", `{"id":"%[1]s"}`, recordingCandidates},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			var pages []string
			for page := range 6 {
				var items []string
				for i := range 200 {
					items = append(items, fmt.Sprintf(c.item, fmt.Sprintf("h%d-%d", page, i)))
				}
				cursor := fmt.Sprintf(`,"next":"c%d"`, page)
				switch page {
				case 0:
					items[7] = fmt.Sprintf(c.item, "gpu-1")
				case 5:
					items[7], cursor = fmt.Sprintf(c.item, "gpu-11"), ""
				}
				pages = append(pages, `{"items":[`+strings.Join(items, ",")+`]`+cursor+`}`)
			}
			b.answer("GET "+c.path, http.StatusOK, pages...)
			a := &app{processEnv: nowhere(&bytes.Buffer{}, &bytes.Buffer{}), config: clientFileOf(t, b)}
			if got := a.found(t.Context(), c.find, nil, "gpu-1"); len(got) != 2 {
				t.Errorf("offers %q", got)
			}
		})
	}
}

func TestOnlyNamesOfContextsAreOffered(t *testing.T) {
	a := &app{processEnv: nowhere(&bytes.Buffer{}, &bytes.Buffer{})}
	base := t.TempDir()
	a.getenv = func(name string) string { return map[string]string{"XDG_CONFIG_HOME": base}[name] }
	if err := os.Mkdir(filepath.Join(base, "hostler"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dc1", "dc2", "dc$(touch x)", "dc 3", "-dc4", "_activeHelp_ dc5"} {
		if err := clientfile.WritePrivate(filepath.Join(base, "hostler", name+".yaml"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := a.offerContexts(nil, nil, ""); !slices.Equal(got, []string{"dc1", "dc2"}) {
		t.Errorf("offers %q", got)
	}
}

// clientFileOf writes the client file of a broker, and returns its path.
func clientFileOf(t *testing.T, b *fakeBroker) string {
	t.Helper()
	dir := t.TempDir()
	if err := b.writeClient(dir); err != nil {
		t.Fatal(err)
	}
	return dir + "/client.yaml"
}
