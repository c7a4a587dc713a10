package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/test/lab"
)

var connected = regexp.MustCompile(`"phase": ?"connected"`)

// BenchmarkAgentProcess measures the memory of the built agent (make build), enrolled with a broker
// and with read-only permission: while the agent waits for its first task, and after a hundred
// heartbeat checks. peak is the maximum so far, anon the memory without the program's file.
//
// The benchmark cancels the baseline task that the broker gives a new node, and restarts the agent:
// the cost of scanning a machine's files depends on the machine.
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

	_, stop := startAgent(b, config)
	cancelBaseline(ctx, b, l)
	stop()
	must(b, os.RemoveAll(l.Path("status.json")))
	pid, stop := startAgent(b, config)
	defer stop()
	heartbeat := func() {
		_, err := l.Hostler(ctx, "task", "enqueue", "here", "node.heartbeat_check", "--wait")
		must(b, err)
	}
	must(b, l.Wait(ctx, "contact with the broker", func() error {
		status, err := os.ReadFile(l.Path("status.json"))
		if err == nil && !connected.Match(status) {
			err = fmt.Errorf("its status is %s", status)
		}
		return err
	}))
	reportMemory(b, "waiting", pid)
	for range 100 {
		heartbeat()
	}
	reportMemory(b, "worked", pid)
}

func startAgent(b *testing.B, config string) (pid int, stop func()) {
	b.Helper()
	agent := exec.Command("../../bin/hostler-agent", "run", "--config", config)
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(b, agent.Start())
	return agent.Process.Pid, func() {
		must(b, agent.Process.Signal(syscall.SIGTERM))
		must(b, agent.Wait())
	}
}

// cancelBaseline cancels the first task of a new node.
func cancelBaseline(ctx context.Context, b *testing.B, l *lab.Lab) {
	b.Helper()
	wait := func(status string) (id string) {
		must(b, l.Wait(ctx, "a baseline task that is "+status, func() error {
			var list struct{ Items []struct{ ID, Status string } }
			if err := l.JSON(ctx, &list, "task", "list", "--node", "here"); err != nil {
				return err
			}
			tasks := list.Items
			if len(tasks) != 1 || tasks[0].Status != status {
				return fmt.Errorf("there is %v", tasks)
			}
			id = tasks[0].ID
			return nil
		}))
		return id
	}
	_, err := l.Hostler(ctx, "task", "cancel", wait("dispatched"))
	must(b, err)
	wait("canceled")
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
