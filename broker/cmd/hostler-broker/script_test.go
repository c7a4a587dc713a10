package main

import (
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/pki"
)

var update = flag.Bool("update", false, "write what the scripts compare with")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"hostler-broker": func() {
			followClock()
			os.Exit(runProcess())
		},
	})
}

// TestScripts checks the program's behaviour as a process: its output, its exit status, and its
// files.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready": ready,
			"exits": exits,
			"term":  terminate,
		},
		Condition: func(cond string) (bool, error) {
			return cond == "mounts" && exec.Command("unshare", "--mount", "true").Run() == nil, nil
		},
	})
}

// ready waits until the broker of a data directory reports ready.
func ready(ts *testscript.TestScript, _ bool, args []string) {
	file := filepath.Join(ts.MkAbs(args[0]), "client.yaml")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		c, err := clientfile.Load(file)
		if err != nil {
			continue
		}
		roots, err := c.Roots()
		ts.Check(err)
		transport := &http.Transport{TLSClientConfig: pki.ClientConfig(roots, nil, time.Now)}
		res, err := (&http.Client{Transport: transport}).Get(c.Broker + "/readyz")
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		transport.CloseIdleConnections()
		if res.StatusCode == http.StatusOK {
			ts.Setenv("BROKER", strings.TrimPrefix(c.Broker, "https://"))
			return
		}
	}
	ts.Fatalf("the broker in %s was never ready", args[0])
}

// terminate sends SIGTERM to the broker of a data directory: term DIR.
func terminate(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(filepath.Join(args[0], "broker.lock"))))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, syscall.SIGTERM))
}

// exits runs a command that must end with a status: exits 3 hostler-broker …
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		// ts.Exec hides the process state, but its text ends in the status.
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s ended with %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}
