//go:build e2e

package e2e

import (
	"fmt"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// amdGPUs puts AMD GPUs into a node that has a baseline; an operator accepts the new baseline. One
// GPU has a fault.
func amdGPUs(s *site) {
	g := s.install("amd", 4, "hive 7", "memory 24M")
	s.root("systemctl", "restart", "hostler-agent") // nobody adds a GPU under a running agent
	s.hostler("node", "baseline", "retake", node, "--wait")
	s.hostler("node", "baseline", "accept", node, "--yes", "--reason", "four GPUs were put in")
	err := s.Wait(s.ctx, "the GPUs among the node's facts", func() error {
		if f := s.facts(); len(f.GPUs) != 4 || f.Keys["gpu.vendor"] != "amd" {
			return fmt.Errorf("the facts are %+v", f.Keys)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.explains("gpu.driver.validate", "amd", "amd_driver_validate")
	s.explains("gpu.scrub.overwrite", "amd", "builtin:amd.overwrite")

	s.root("fakegpu-tenant-amd", "4194304", canary)
	if n := g.tokens(canary); slices.Min(n) == 0 {
		g.t.Fatalf("the tenant left %d tokens, so the test proves nothing", n)
	}

	g.faults("fault.2 keeps_chunk 2097152")
	lied := g.do("node.gpu_scrub", map[string]any{})
	tokens := g.tokens(canary)
	for i, u := range g.scrubbed(lied).GPUs {
		had, has, _ := measured(u)
		if clean := i != 2; (u.Verdict == "clean") != clean || (has == 0) != clean || (tokens[i] == 0) != clean {
			s.t.Errorf("GPU %d is %s %s (%s), has %d wrong words and %d tokens", i, u.Verdict, u.Code, u.Message, has, tokens[i])
		}
		// No kernel driver confirms the reset: counters alone are no proof, and the library writes
		// into the kernel's log as any program may.
		if had == 0 || len(u.ResetGroup) != 4 || u.Assurance.Reset != taskcatalog.ResetUnproven {
			s.t.Errorf("GPU %d had %d words of residue, its reset with %q is %s (%q)", i, had, u.ResetGroup, u.Assurance.Reset, u.ResetWitnesses)
		}
	}
	if lied.Verdict != "not_clean" {
		s.t.Errorf("with a GPU that lies the node is %s", lied.Verdict)
	}
}
