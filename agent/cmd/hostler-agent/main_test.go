package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/agenttest"
	"github.com/hostler/hostler/taskcatalog"
)

// call runs a command in this process.
func call(t *testing.T, args ...string) (status int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(t.Context(), args, &o, &e)
	return status, o.String(), e.String()
}

// config writes a config file with all paths below a temporary directory.
func config(t *testing.T) (name, state string) {
	t.Helper()
	dir := t.TempDir()
	name, state = filepath.Join(dir, "config.yaml"), filepath.Join(dir, "state")
	text := "allow: probe\nstate_dir: " + state + "\nstatus_file: " + filepath.Join(dir, "run", "status.json") + "\n"
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name, state
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFaultsHaveACodeAnExitStatusAndNoSecret(t *testing.T) {
	good, _ := config(t)
	token := "hsn_" + strings.Repeat("SECRET", 7) + "S"
	tokenFile := write(t, token+"\n")
	pin := strings.Repeat("ab", 32)
	for _, test := range []struct {
		name   string
		args   []string
		status int
		code   string
	}{
		{"unknown flag", []string{"run", "--shell"}, exitUsage, "bad_usage"},
		{"unknown command", []string{"exec"}, exitUsage, "bad_usage"},
		{"a session without a name", []string{"session"}, exitUsage, "bad_usage"},
		{"a session that is a path", []string{"session", "../ts-7k2m4q6s"}, exitUsage, "bad_usage"},
		{"a session with more", []string{"session", "ts-7k2m4q6s", "sh"}, exitUsage, "bad_usage"},
		{"the end of none", []string{"session-ended", "ts-7k2m4q6s/../x"}, exitUsage, "bad_usage"},
		{"an argument too many", []string{"version", "now"}, exitUsage, "bad_usage"},
		{"enroll without a token", []string{"enroll", "--broker", "https://b", "--ca-sha256", pin}, exitUsage, "bad_usage"},
		{"enroll without a pin", []string{"enroll", "--broker", "https://b", "--token-file", tokenFile}, exitUsage, "bad_usage"},
		{"a token on the command line", []string{"enroll", "--token", token}, exitUsage, "bad_usage"},
		{"a token file that is not there", []string{"enroll", "--broker", "https://b", "--ca-sha256", pin, "--token-file", "/nowhere"}, exitUsage, "bad_usage"},
		{"a broker without TLS", []string{"enroll", "--config", good, "--broker", "http://b", "--ca-sha256", pin, "--token-file", tokenFile}, exitUsage, "identity_source_invalid"},
		{"a pin cut short", []string{"enroll", "--config", good, "--broker", "https://b", "--ca-sha256", "abcd", "--token-file", tokenFile}, exitUsage, "identity_source_invalid"},
		{"nobody there", []string{"enroll", "--config", good, "--broker", "https://127.0.0.1:1", "--ca-sha256", pin, "--token-file", tokenFile, "--timeout", "1ms"}, exitFailed, "broker_unreachable"},
		{"a config that is not there", []string{"run", "--config", "/nowhere/config.yaml"}, exitUsage, "config_invalid"},
		{"a config that makes no sense", []string{"run", "--config", write(t, "alow: probe\n")}, exitUsage, "config_invalid"},
		{"a state directory that cannot be", []string{"run", "--config", write(t, "state_dir: /proc/hostler\n")}, exitFailed, "state_invalid"},
		{"status of nobody", []string{"status", "--config", good}, exitFailed, "agent_not_running"},
		{"a format of no kind", []string{"status", "-o", "xml", "--config", good}, exitUsage, "bad_usage"},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, _, errOut := call(t, test.args...)
			if status != test.status || !strings.HasPrefix(errOut, "error: "+test.code+": ") || strings.Count(errOut, "\n") != 1 {
				t.Fatalf("status %d, %q; want %d, %s", status, errOut, test.status, test.code)
			}
			if strings.Contains(errOut, "SECRET") {
				t.Fatal("the error holds the token")
			}
		})
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	for _, name := range []string{"run", "enroll", "status", "watch", "self-test", "update", "version"} {
		status, out, _ := call(t, "help", name)
		if status != exitDone || !strings.Contains(out, "Examples:") || !strings.Contains(out, "hostler-agent "+name) {
			t.Errorf("help %s: status %d\n%s", name, status, out)
		}
	}
}

// The whole path on loopback, with the test machine as the node: probes change nothing.
func TestAMachineEnrolsRunsAndStops(t *testing.T) {
	broker := agenttest.New(t, time.Now)
	url := broker.Listen()
	boot := broker.Bootstrap()
	conf, _ := config(t)
	enroll := []string{"enroll", "--config", conf, "--broker", url, "--ca-sha256", boot.CASHA256, "--token-file", write(t, boot.Token.Reveal())}
	status, out, errOut := call(t, enroll...)
	if status != exitDone || !strings.HasPrefix(out, "enrolled as node n-") {
		t.Fatalf("status %d: %s%s", status, out, errOut)
	}
	if status, again, errOut := call(t, enroll...); status != exitDone || again != out {
		t.Fatalf("enrolled again before the first contact: status %d: %s", status, errOut)
	}
	id := strings.TrimSpace(strings.TrimPrefix(out, "enrolled as node "))

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int)
	go func() { done <- run(ctx, []string{"run", "--config", conf}, os.Stdout, os.Stderr) }()
	q := broker.Enqueue(id, "node.heartbeat_check", `{}`)
	if r := broker.Wait(q, 30*time.Second); r.Code != "" {
		t.Errorf("%+v", r)
	}
	status, out, errOut = call(t, "status", "--config", conf, "-o", "json")
	if status != exitDone || !strings.Contains(out, `"node_id": "`+id+`"`) {
		t.Errorf("status %d: %s%s", status, out, errOut)
	}
	if status, out, _ := call(t, "status", "--config", conf); status != exitDone || !strings.Contains(out, id) {
		t.Errorf("status %d:\n%s", status, out)
	}
	if status, _, errOut := call(t, enroll...); status != exitRefused || !strings.HasPrefix(errOut, "error: state_locked: ") {
		t.Errorf("enrol beside a running agent: status %d: %s", status, errOut)
	}
	stop()
	if status := <-done; status != exitDone {
		t.Errorf("stopped with status %d", status)
	}
	// The token is spent by now.
	other, _ := config(t)
	enroll[2] = other
	if status, _, errOut := call(t, enroll...); status != exitRefused || !strings.HasPrefix(errOut, "error: token_used: ") {
		t.Errorf("a spent token: status %d: %s", status, errOut)
	}
}

func TestFactsAreForPeopleAndForPrograms(t *testing.T) {
	status, out, errOut := call(t, "facts")
	if status != exitDone || !strings.Contains(out, "gpu.vendor") {
		t.Errorf("status %d, %q, %s", status, out, errOut)
	}
	status, out, errOut = call(t, "facts", "-o", "json")
	var f taskcatalog.Facts
	if err := taskcatalog.DecodeStrict([]byte(out), &f); status != exitDone || err != nil || f.Keys["gpu.vendor"] == "" {
		t.Errorf("status %d, %v, %q, %s", status, err, out, errOut)
	}
	if status, _, errOut := call(t, "facts", "-o", "xml"); status != exitUsage || !strings.Contains(errOut, "bad_usage") {
		t.Errorf("status %d, %s", status, errOut)
	}
}
