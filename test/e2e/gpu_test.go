//go:build e2e

package e2e

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

const (
	canary      = "canary-3f9c-of-a-tenant"
	persistence = "nvidia-persistenced.service"
)

// daemon is the unit of the vendor's own daemon, which holds the GPUs on many machines.
const daemon = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"

// A turnover of a machine with six GPUs, one for each trouble and one without: the tenant's leftovers
// are present, and the scrub removes them in spite of a crash and a faulty GPU.
func TestATenantsResidueOnSixNVIDIAGPUsIsScrubbed(t *testing.T) {
	s := newSite(t)
	s.config = "scratch: [/scratch*]\n"
	s.restore(installed)
	g := s.install("nvidia", 6, "fabric on", "persistence on") // persistence mode is also switched on by hand, and blocks a reset
	g.deviceFiles()
	s.put("/usr/lib/systemd/system/"+persistence, []byte(daemon), 0o644) // as its package does
	s.root("mkdir", "/scratch0")
	s.root("systemctl", "enable", "--now", persistence)
	s.hostler("resolver", "push", shipped, "--nodes", "all", "--version", "v1")
	write(t, s.Path("policy.json"), `{"gpu": {"holder_grace_seconds": 2}}`)
	s.hostler("clean-policy", "set", s.Path("policy.json"), "--reason", "nobody here has anything to put in order")
	s.enrol()
	s.explains("gpu.scrub.overwrite", "nvidia-no-fabric", "builtin:nvidia.overwrite")
	s.explains("gpu.scrub.reset", "nvidia-no-fabric", "nvidia_gpu_reset")
	if f := s.facts(); len(f.GPUs) != 6 || f.Keys["gpu.vendor"] != "nvidia" || f.GPUs[5].UUID == "" || *f.GPUs[5].MemoryBytes != 16<<20 {
		t.Errorf("the facts of the node are %+v", f)
	}
	s.provision("a-1", "alice")
	s.as("alice", "fakegpu-tenant 4194304 "+canary)
	if n := g.tokens(canary); slices.Min(n) == 0 {
		t.Fatalf("the tenant left %d tokens, so the test proves nothing", n)
	}

	g.survivesAKill()
	g.tellsTroubleApart()
	g.turnsOver()
}

// A killed agent leaves no daemon stopped after a scrub.
func (g *gpus) survivesAKill() {
	g.t.Helper()
	g.faults("fault.0 hang fill")
	killed := g.enqueue("node.gpu_scrub", map[string]any{"allocation_id": "a-1"})
	g.reaches(killed.ID, "gpu.scrub.overwrite")
	if r, _ := g.guest.Run(g.ctx, "systemctl", "is-active", persistence); strings.TrimSpace(r.Stdout) != "inactive" {
		g.t.Errorf("during the scrub %s is %s", persistence, r.Stdout)
	}
	g.root("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "hostler-agent")
	if got := g.end(killed.ID); got.Outcome != "interrupted" || got.Attempt != 1 {
		g.t.Errorf("the scrub of the agent that was killed ended %+v", got)
	}
	g.runsAgain(persistence)
	g.faults()
}

func (g *gpus) runsAgain(unit string) {
	g.t.Helper()
	err := g.Wait(g.ctx, unit, func() error {
		_, err := g.guest.Run(g.ctx, "systemctl", "is-active", unit)
		return err
	})
	if err != nil {
		g.t.Error(err)
	}
}

// planting lists the places where a tenant leaves a token, with the user.
var planting = []struct{ by, line string }{
	{"alice", "echo " + canary + " > /dev/shm/x; echo " + canary + " > /var/tmp/x; echo " + canary + " >> ~/.bash_history"},
	{"alice", "mkdir -p ~/.ssh && echo 'ssh-ed25519 AAAA " + canary + "' >> ~/.ssh/authorized_keys"},
	{"alice", "echo '* * * * * true # " + canary + "' | crontab -; echo 'echo " + canary + "' | at now + 1 day 2> /dev/null"},
	{"root", "mkdir -p /scratch0/models && echo " + canary + " > /scratch0/models/weights"},
	{"root", "mkdir -p /var/lib/docker/volumes/v/_data && echo " + canary + " > /var/lib/docker/volumes/v/_data/x"},
	{"alice", "fakegpu-tenant 8388608 " + canary},
}

// turnsOver performs an operator's turnover, and searches for the leftovers without trusting any
// result.
func (g *gpus) turnsOver() {
	g.t.Helper()
	for _, p := range planting {
		g.as(p.by, p.line)
	}
	if left := g.search(); len(left) < 8+g.count {
		g.t.Fatalf("planted were %q, so the test proves nothing", left)
	}
	g.must("node.drain", map[string]any{"grace_seconds": 1})
	g.must("allocation.revoke_user", map[string]any{"allocation_id": "a-1", "username": "alice"})
	g.must("node.storage_cleanup", map[string]any{"scope": "local"})
	scrubbed := g.must("node.gpu_scrub", map[string]any{})
	res := g.scrubbed(scrubbed)
	// Persistence mode is off for a reset, so counters and fabric are a single source.
	if scrubbed.Verdict != "clean" || res.Assurance != (taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteVerified, Reset: taskcatalog.ResetUnproven}) {
		g.t.Errorf("the scrub says %s, %+v", scrubbed.Verdict, res)
	}
	for i, u := range res.GPUs {
		if had, has, percent := measured(u); had == 0 || has != 0 || percent < 90 { // a chunk of 2 MiB is much of 16
			g.t.Errorf("GPU %d had %d words of residue, has %d wrong ones, and %.1f percent were covered", i, had, has, percent)
		}
	}
	if !slices.ContainsFunc(res.Steps, func(r taskcatalog.StepRecord) bool {
		return r.StepKind == "gpu.scrub.reset" && r.ResolvedProfile == "nvidia_gpu_reset" && r.Status == taskcatalog.StepSucceeded
	}) {
		g.t.Errorf("the steps are %+v", res.Steps)
	}
	clean := g.must("node.validate_clean", map[string]any{})
	if ev := g.evidence(clean.ID); clean.Verdict != "clean" {
		g.t.Errorf("the verdict is %s: %+v %+v", clean.Verdict, ev.Findings, unmade(ev))
	}
	if left := g.search(); len(left) > 0 {
		g.t.Errorf("the token is still in %q", left)
	}
}

// measured returns the words of a tenant's data found on a GPU, the words that are wrong after the
// scrub, and the percentage covered. A missing figure counts as a failure.
func measured(u taskcatalog.GPUScrubbed) (had, has uint64, percent float64) {
	if u.ResidueWords == nil || u.MismatchedWords == nil || u.RemainingWords == nil || u.ProbedNonZeroWords == nil || u.CoveragePercent == nil {
		return 0, math.MaxUint64, 0
	}
	return *u.ResidueWords, *u.MismatchedWords + *u.RemainingWords + *u.ProbedNonZeroWords, *u.CoveragePercent
}

// search searches every file that a tenant can write, including VRAM, for the token.
func (g *gpus) search() []string {
	g.t.Helper()
	r, err := g.guest.Run(g.ctx, "sh", "-c", "grep --recursive --text --files-with-matches --fixed-strings "+canary+
		" /etc /home /root /tmp /dev/shm /run /scratch* /srv /mnt /var/tmp /var/spool /var/crash /var/mail /var/lib/docker /var/lib/containerd /var/lib/systemd "+fakeState+" 2> /dev/null")
	if r.Exit > 2 || r.Exit == 0 && r.Stdout == "" {
		g.t.Fatal(err)
	}
	return strings.Fields(r.Stdout)
}
