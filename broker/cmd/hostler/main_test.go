package main

import (
	"context"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write the goldens anew")

// testNow is the time at which all scripts run.
var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// atOnce keeps the race detector from waiting for a second at the end of each command.
const atOnce = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hostler": hostlerAtTestNow})
}

// hostlerAtTestNow is the program with a fixed clock, or with the real clock if CLOCK is real.
// TERMINAL=1 makes the program treat its streams as a terminal of 60 columns.
func hostlerAtTestNow() {
	terminal := os.Getenv("TERMINAL") != ""
	now := func() time.Time { return testNow }
	if os.Getenv("CLOCK") == "real" {
		now = time.Now
	}
	ctx, stop := untilSignal()
	defer stop()
	os.Exit(run(ctx, os.Args[1:], processEnv{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		getenv: os.Getenv, now: now,
		ask: terminal, live: terminal, color: terminal && os.Getenv("NO_COLOR") == "",
		width: func() int { return 60 },
		outWidth: func() int {
			if terminal {
				return 60
			}
			return 0
		},
		patience: time.Minute, // a busy machine is no broken completion
	}))
}

// TestScripts checks the program's behaviour, command by command. Each script has a broker of its
// own, and sets that broker's answers.
func TestScripts(t *testing.T) {
	ctx := t.Context()
	if end, has := t.Deadline(); has {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, end.Add(-10*time.Second)) // leaves time to say what is missing
		t.Cleanup(stop)
	}
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			b := newFakeBroker(e.T().(testing.TB))
			e.Values["broker"], e.Values["context"] = b, ctx
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("BROKER", b.URL)
			e.Setenv("GORACE", atOnce)
			e.Setenv("CERTIFICATES", certificates(e.T().(testing.TB)))
			e.Setenv("CA_SHA256", b.authority.Pin())
			e.Setenv("HOSTLER_CONFIG", filepath.Join(e.WorkDir, "client.yaml"))
			return b.writeClient(e.WorkDir)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "sent": sent, "answer": answer, "frozen": frozen, "flip": flip, "tab": tab,
		},
	})
}

// exits N COMMAND … runs a command and checks its exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND …")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit interface{ ExitCode() int }
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// sent METHOD PATH [TEXT] checks that the broker got such a request, with TEXT in its body.
// Negated: that there was no such request.
func sent(ts *testscript.TestScript, neg bool, args []string) {
	b := ts.Value("broker").(*fakeBroker)
	want := strings.Join(args[:2], " ")
	found := false
	for _, r := range b.requests() {
		if r.line == want && (len(args) < 3 || strings.Contains(r.body, args[2])) {
			found = true
		}
	}
	if found == neg {
		ts.Fatalf("sent %v is %v; the broker got %v", args, found, b.requests())
	}
}

// answer METHOD PATH [STATUS] FILE … makes the broker answer a request with a file's JSON. Several
// files are used one after the other, the last one forever.
func answer(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.Value("broker").(*fakeBroker)
	status, files := http.StatusOK, args[2:]
	if n, err := strconv.Atoi(files[0]); err == nil {
		status, files = n, files[1:]
	}
	var bodies []string
	for _, f := range files {
		bodies = append(bodies, ts.ReadFile(f))
	}
	b.answer(args[0]+" "+args[1], status, bodies...)
}

// frozen SITES makes the broker's answers name these sites as frozen.
func frozen(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.Value("broker").(*fakeBroker)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frozen = strings.Join(args, ", ")
}
