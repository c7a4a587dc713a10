//go:build e2e

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/firstboot"
	"github.com/hostler/hostler/test/qemu"
)

// A terminal of Hostler's against one of OpenSSH, over the same link in the same run. The
// ratios are Hostler's share: of an echo the less the better, of output the more.
func BenchmarkTerminalAgainstSSH(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Minute)
	defer cancel()
	g := guest(b, ctx)
	argv := []string{"ip", "netns", "exec", "broker", programs + "/link"}
	if keys, err := strconv.Atoi(os.Getenv("KEYS")); err == nil {
		argv = append(argv, "-keys", strconv.Itoa(keys))
	}
	for b.Loop() {
		r, err := g.Run(ctx, argv...)
		b.Log(r.Stderr)
		if err != nil {
			b.Fatal(err)
		}
		var f figures
		if err := json.Unmarshal([]byte(r.Stdout), &f); err != nil {
			b.Fatalf("%v: %q", err, r.Stdout)
		}
		load, err := os.ReadFile("/proc/loadavg")
		if err != nil {
			b.Fatal(err)
		}
		b.Logf("\n%sthe host's load in the end: %s", f.table(), load)
		b.ReportMetric(0, "ns/op")
		for unit, value := range map[string]float64{
			"ms-ssh-p50": f.Bad.SSH.P50, "ms-p50": f.Bad.Hostler.P50, "p50-ratio": f.Bad.Hostler.P50 / f.Bad.SSH.P50,
			"ms-ssh-p99": f.Bad.SSH.P99, "ms-p99": f.Bad.Hostler.P99, "p99-ratio": f.Bad.Hostler.P99 / f.Bad.SSH.P99,
			"MB/s-ssh": f.MBps.SSH, "MB/s-out": f.MBps.Hostler, "MB/s-ratio": f.MBps.Hostler / f.MBps.SSH,
		} {
			b.ReportMetric(value, unit)
		}
	}
}

// guest is the node, with the agent's package on it and the link to where the broker will be.
func guest(b *testing.B, ctx context.Context) *qemu.Guest {
	b.Helper()
	program := filepath.Join(b.TempDir(), "link")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	debs, err := filepath.Glob("../../dist/hostler-agent_*_amd64.deb")
	if err != nil || len(debs) != 1 {
		b.Fatalf("there is not one package of the agent but %q (make clean package): %v", debs, err)
	}
	img, err := qemu.BuildImage(ctx, os.Stderr)
	if err != nil {
		b.Fatal(err)
	}
	g := qemu.Start(b, img, qemu.Config{Name: node, MemoryMB: 2048, TSC: true, UserData: "#cloud-config\n{}\n"})
	for _, wait := range []func(context.Context) error{g.WaitCloudInit, g.WaitBooted} {
		if err := wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
	for to, from := range map[string]string{
		"link": program, "hostler": "../../bin/hostler", "hostler-broker": "../../bin/hostler-broker", "hostler-agent": "../../bin/hostler-agent", "agent.deb": debs[0],
	} {
		raw, err := os.ReadFile(from)
		if err == nil {
			err = g.Put(ctx, programs+"/"+to, raw, 0o755)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, line := range []string{
		"touch " + firstboot.DisableFile,
		"dpkg -i " + programs + "/agent.deb",
		"ip netns add broker",
		"ip link add " + nodeEnd + " type veth peer name " + brokerEnd + " netns broker",
		"ip address add " + nodeAddress + "/30 dev " + nodeEnd,
		"ip link set " + nodeEnd + " up",
		"ip -n broker address add " + brokerAddress + "/30 dev " + brokerEnd,
		"ip -n broker link set " + brokerEnd + " up",
		"ip -n broker link set lo up",
	} {
		if _, err := g.Run(ctx, strings.Fields(line)...); err != nil {
			b.Fatal(err)
		}
	}
	return g
}
