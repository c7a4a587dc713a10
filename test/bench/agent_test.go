package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/test/lab"
)

// BenchmarkAgentProcess is the memory of the agent as it is built (make build),
// enrolled with a broker and allowed to look and nothing else: while it waits for
// its first task, and when it has taken this machine's baseline and answered ten
// heartbeat checks. peak is the most that it ever had, anon what is not the
// program's file. The broker asks for a baseline at once, so one is always taken.
func BenchmarkAgentProcess(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Minute)
	defer cancel()
	l, err := lab.New("../../bin", "127.0.0.1")
	must(b, err)
	defer func() { must(b, l.Close()) }()
	must(b, l.StartBroker(ctx))
	var boot struct {
		CA    string `json:"ca_sha256"`
		Token string `json:"token"`
	}
	must(b, l.JSON(ctx, &boot, "node", "create", "--hostname", "here", "--bootstrap", "command"))
	config, token := l.Path("agent.yaml"), l.Path("token")
	must(b, os.WriteFile(token, []byte(boot.Token), 0o600))
	must(b, os.WriteFile(config, fmt.Appendf(nil, "broker: https://%s\nca_sha256: %s\ntoken_file: %s\nstate_dir: %s\nstatus_file: %s\nallow: probe\n",
		l.AgentAddress(), boot.CA, token, l.Path("state"), l.Path("status.json")), 0o600))

	agent := exec.Command(filepath.Join("../../bin", "hostler-agent"), "run", "--config", config)
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(b, agent.Start())
	defer func() {
		must(b, agent.Process.Signal(syscall.SIGTERM))
		must(b, agent.Wait())
	}()
	must(b, l.WaitNode(ctx, "here", "active"))
	reportMemory(b, "active", agent.Process.Pid)
	for range 10 {
		_, err := l.Hostler(ctx, "task", "enqueue", "here", "node.heartbeat_check", "--wait")
		must(b, err)
	}
	reportMemory(b, "worked", agent.Process.Pid)
}

func reportMemory(b *testing.B, name string, pid int) {
	of := memory(b, pid)
	b.Run(name, func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		for _, figure := range []struct{ unit, line string }{{"rss-MB", "VmRSS"}, {"anon-MB", "RssAnon"}, {"peak-MB", "VmHWM"}} {
			b.ReportMetric(of[figure.line], figure.unit)
		}
	})
}

// memory reads /proc/PID/status, in megabytes.
func memory(b *testing.B, pid int) map[string]float64 {
	b.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	must(b, err)
	defer func() { _ = f.Close() }()
	out := map[string]float64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		if kib, ok := strings.CutSuffix(strings.TrimSpace(rest), " kB"); ok {
			n, err := strconv.ParseFloat(kib, 64)
			must(b, err)
			out[name] = n * 1024 / 1e6
		}
	}
	return out
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
