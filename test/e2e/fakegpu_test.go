//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/fakegpu"
)

// gpus are the guest's GPUs: fake libraries and programs of a vendor in the place of the real ones,
// under an unmodified agent.
type gpus struct {
	*site
	vendor string
	count  int
	config []string
}

const fakeState = "/var/lib/fakegpu"

// install puts GPUs of 16 MiB into a guest that has not enrolled yet, with additional lines of the
// machine's config.
func (s *site) install(vendor string, count int, config ...string) *gpus {
	s.t.Helper()
	g := &gpus{site: s, vendor: vendor, count: count, config: append([]string{
		fmt.Sprintf("devices %d", count), "memory 16M", "reserved 1M", "scrub_on_free off",
	}, config...)}
	var packed bytes.Buffer
	if err := fakegpu.Rootfs(&packed, vendor, g.config...); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.guest.RunWith(s.ctx, &packed, "tar", "--extract", "--directory", "/", "--touch"); err != nil {
		s.t.Fatal(err)
	}
	s.root("ldconfig")
	// The vendor's tool opens each GPU once. Then the GPU's memory exists, and a tenant may open it
	// like a device node.
	s.root(map[string]string{"nvidia": "/usr/bin/nvidia-smi", "amd": "/opt/rocm/bin/amd-smi"}[vendor], map[string]string{"nvidia": "-L", "amd": "list"}[vendor])
	s.root("sh", "-c", "chmod 0666 "+fakeState+"/gpu*")
	return g
}

func (g *gpus) lines(more ...string) []byte {
	return []byte("vendor " + g.vendor + "\n" + strings.Join(slices.Concat(g.config, more), "\n") + "\n")
}

// faults replaces the configured faults with the given lines.
func (g *gpus) faults(lines ...string) {
	g.t.Helper()
	g.put(fakeState+"/config", g.lines(lines...), 0o644)
}

// tokens counts a token in the memory of each GPU. It reads the memory itself and trusts no
// library.
func (g *gpus) tokens(token string) []int {
	g.t.Helper()
	counts := make([]int, g.count)
	for i := range counts {
		r, err := g.guest.Run(g.ctx, "grep", "--text", "--count", "--fixed-strings", token, fmt.Sprintf("%s/gpu%d.vram", fakeState, i))
		if r.Exit > 1 {
			g.t.Fatal(err)
		}
		if counts[i], err = strconv.Atoi(strings.TrimSpace(r.Stdout)); err != nil {
			g.t.Fatal(err)
		}
	}
	return counts
}

// scrubbed returns the result of a scrub, with the GPUs in the order of their addresses.
func (g *gpus) scrubbed(t task) taskcatalog.GPUScrubResult {
	g.t.Helper()
	var r taskcatalog.GPUScrubResult
	if err := json.Unmarshal(t.Result, &r); err != nil {
		g.t.Fatalf("the task ended %s %s (%s): %v: %s", t.Status, t.Code, t.Message, err, t.Result)
	}
	if len(r.GPUs) != g.count {
		g.t.Fatalf("%d GPUs were scrubbed, not %d: %s", len(r.GPUs), g.count, t.Result)
	}
	return r
}
