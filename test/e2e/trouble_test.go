//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// nodes creates the GPUs' device files, as a driver loaded at boot does.
const nodes = "gpu-nodes.service"

func (g *gpus) deviceFiles() {
	g.t.Helper()
	g.put("/etc/systemd/system/"+nodes, []byte(fmt.Sprintf("[Service]\nExecStart=/usr/local/sbin/fakegpu-nodes %d\n[Install]\nWantedBy=multi-user.target\n", g.count)), 0o644)
	g.root("modprobe", "cuse")
	g.root("systemctl", "enable", "--now", nodes)
	g.root("sh", "-c", fmt.Sprintf("until [ -c /dev/nvidia%d ]; do sleep 0.1; done", g.count-1))
}

// The GPUs with trouble during one scrub.
const (
	deaf   = 1 // its holder ignores SIGTERM
	apart  = 2 // its holder has a PID and a mount namespace of its own
	asleep = 3 // its holder waits in the kernel, where SIGKILL has no effect
	stuck  = 4 // the agent's own helper waits in the kernel
	liar   = 5 // the GPU keeps old data
)

// told is the expected result of a scrub of such a GPU.
var told = map[int]struct {
	verdict taskcatalog.Verdict
	code    taskcatalog.Code
	message string
	holders []taskcatalog.GPUHolder // without their process numbers and users
}{
	deaf: {taskcatalog.VerdictClean, "", "", []taskcatalog.GPUHolder{{Name: "fakegpu-tenant", Via: "library", Outcome: "killed"}}},
	// The library lists the holder by the number in the holder's own namespace. Here that number
	// belongs to another process, and no process is ended because of it.
	apart: {taskcatalog.VerdictClean, "", "", []taskcatalog.GPUHolder{
		{Via: "library", Outcome: "unseen"},
		{Name: "fakegpu-tenant", Via: "open_device", Namespace: true, Outcome: "terminated"},
	}},
	asleep: {taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent, "outlived SIGKILL in state D", []taskcatalog.GPUHolder{
		{Name: "fakegpu-tenant", Via: "open_device", Outcome: "stuck", State: "D"},
	}},
	stuck: {taskcatalog.VerdictInconclusive, "helper_stuck", "did not end within", nil},
	liar:  {taskcatalog.VerdictNotClean, taskcatalog.CodeGPUResidue, "", nil},
}

const frozen = fakeState + "/frozen"

// holding starts the holders of a GPU; the GPU's uuid replaces %s.
var holding = []struct {
	gpu      int
	by, line string
}{
	{deaf, "alice", "CUDA_VISIBLE_DEVICES=%s setsid nohup fakegpu-tenant 1048576 " + canary + " stay ignore-sigterm > /tmp/deaf 2>&1 < /dev/null & until grep -q ready /tmp/deaf; do sleep 0.1; done"},
	{apart, "root", "CUDA_VISIBLE_DEVICES=%s setsid nohup unshare --pid --mount --fork --mount-proc sh -c 'fakegpu-tenant 1048576 " + canary +
		" stay 3<> /dev/nvidia2 & wait' > /tmp/apart 2>&1 < /dev/null & until grep -q ready /tmp/apart; do sleep 0.1; done"},
	// The holder opens a file, freezes the file system, and writes.
	{asleep, "root", "CUDA_VISIBLE_DEVICES=%s setsid nohup sh -c 'echo $$ > /tmp/asleep; exec 3<> /dev/nvidia3 > " + frozen + "/out; fsfreeze --freeze " + frozen +
		"; exec fakegpu-tenant 1048576 " + canary + " stay' 2> /tmp/asleep.err < /dev/null & until grep -q percpu_rwsem_wait /proc/$(cat /tmp/asleep)/wchan; do sleep 0.1; done"},
}

// atFrozen lists the processes that wait at the frozen file system.
const atFrozen = "grep --no-messages --files-with-matches percpu_rwsem_wait /proc/[0-9]*/task/*/wchan | cut -d / -f 3"

// noise is written into the pipes of a helper that waits there, as its library may do. Invalid
// output ends the helper at once; silence would be tolerated for minutes.
const noise = "setsid nohup sh -c 'until p=$(pgrep -f \"gpu [h]elper\" | grep -xF \"$(" + atFrozen + ")\"); do sleep 0.5; done; for f in /proc/$p/fd/*; do test -p $f && echo noise > $f; done' > /tmp/noise 2>&1 < /dev/null &"

// tellsTroubleApart scrubs GPUs that each have a different trouble, or none. The processes that
// wait in the kernel are woken afterwards, so that the next scrub finds no holder.
func (g *gpus) tellsTroubleApart() {
	g.t.Helper()
	g.as("alice", "fakegpu-tenant 4194304 "+canary)
	g.root("sh", "-c", "mkdir "+frozen+" && truncate --size 4M /var/tmp/frozen && mkfs.ext4 -q /var/tmp/frozen && mount -o loop /var/tmp/frozen "+frozen)
	g.faults(fmt.Sprintf("fault.%d keeps_chunk 2097152", liar), fmt.Sprintf("fault.%d stuck fill", stuck))
	seen := g.facts().GPUs
	for _, h := range holding {
		g.as(h.by, fmt.Sprintf(h.line, seen[h.gpu].UUID))
	}
	g.root("sh", "-c", noise)
	agent := g.root("systemctl", "show", "-P", "MainPID", "hostler-agent")

	id := g.enqueue("node.gpu_scrub", map[string]any{"allocation_id": "a-1"}).ID
	g.seesProgress(id, g.count-1) // the scrub of one GPU does not begin: the GPU has a holder
	ended := g.end(id)
	res := g.scrubbed(ended)
	if ended.Status != "succeeded" || ended.Verdict != "not_clean" || res.Assurance.Overwrite != taskcatalog.OverwriteNone {
		g.t.Errorf("with GPUs in trouble the scrub ended %s (%s), %s, %+v", ended.Status, ended.Message, ended.Verdict, res.Assurance)
	}
	tokens := g.tokens(canary)
	for i, u := range res.GPUs {
		want := told[i]
		if want.verdict == "" {
			want.verdict = taskcatalog.VerdictClean
		}
		if u.Verdict != want.verdict || u.Code != want.code || !strings.Contains(u.Message, want.message) || (tokens[i] == 0) != (u.Verdict == taskcatalog.VerdictClean) {
			g.t.Errorf("GPU %d is %s %s (%s), with %d tokens in its memory; want %+v", i, u.Verdict, u.Code, u.Message, tokens[i], want)
		}
		// The stuck helper has the library open, and therefore every GPU.
		if u.Verdict == taskcatalog.VerdictClean && u.Assurance.Reset != taskcatalog.ResetRefused {
			g.t.Errorf("the reset of GPU %d is %s (%q)", i, u.Assurance.Reset, u.ResetWitnesses)
		}
		who := slices.Clone(u.Holders)
		for j := range who {
			who[j].PID, who[j].UID = 0, 0
		}
		if !slices.Equal(who, want.holders) {
			g.t.Errorf("GPU %d was held by %+v, want %+v", i, u.Holders, want.holders)
		}
		if had, _, _ := measured(u); had == 0 && u.Verdict == taskcatalog.VerdictClean {
			g.t.Errorf("the residue on GPU %d was not seen: %+v", i, u)
		}
	}
	if !slices.Equal(res.Stopped, []taskcatalog.GPUInterrupted{{Unit: persistence, PutBack: true}}) {
		g.t.Errorf("stopped: %+v", res.Stopped)
	}
	g.runsAgain(persistence)
	if ev := g.evidence(id); len(ev.Findings) != 3 || !has(ev.Findings, taskcatalog.CheckGPU, res.GPUs[asleep].UUID, "") ||
		!has(ev.Findings, taskcatalog.CheckGPU, res.GPUs[stuck].UUID, "") || !has(ev.Findings, taskcatalog.CheckGPU, res.GPUs[liar].UUID, "") {
		g.t.Errorf("the findings are %+v", ev.Findings)
	}
	if now := g.root("systemctl", "show", "-P", "MainPID", "hostler-agent"); now != agent {
		g.t.Errorf("the agent was process %s and is %s", agent, now)
	}
	if waiting := strings.Fields(g.root("sh", "-c", atFrozen)); len(waiting) != 2 {
		g.t.Errorf("processes %q outlived SIGKILL, not two of them: the test proves nothing", waiting)
	}
	g.faults()
	g.root("sh", "-c", "fsfreeze --unfreeze "+frozen+" && until umount "+frozen+" 2> /dev/null; do sleep 0.1; done; rmdir "+frozen+" && rm /var/tmp/frozen")
}
