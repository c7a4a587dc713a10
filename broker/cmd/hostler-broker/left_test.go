package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
	"github.com/hostler/hostler/test/maassim"
)

// leaving is the number of machines that are onboarded and turned over: enough for a table to have
// more full pages than begun pages.
const leaving = 40

// BenchmarkWhatIsLeft measures the rows that an onboarding and a whole turnover leave in the
// broker's tables: the program on SQLite, a simulated region, and machines with eight GPUs and
// three disks. The turnover is a reimage of a node with one tenant, and ends with a clean
// certificate that meets the policy. The result is by table, with indexes; rows that are only
// rewritten leave nothing. The time is not measured.
func BenchmarkWhatIsLeft(b *testing.B) {
	p := newProcess(b, `{"require_hw_sync":false,"enable_phase2_roce":false,"accept_maas_erase":true}`, func(_ *process, next http.Handler) http.Handler { return next })
	db := "sqlite:" + p.data() + "/hostler.db"
	l := &leaver{process: p}
	empty := storetest.OnDisk(b, db)
	l.all(leaving, l.comes)
	onboarded := storetest.OnDisk(b, db)
	for _, m := range l.machines {
		m.node.LetIn(b, "a-"+m.Hostname, "alice")
	}
	letIn := storetest.OnDisk(b, db)
	l.all(leaving, func(n int) func() standing { return l.turnedOver(l.machines[n-1]) })
	over := storetest.OnDisk(b, db)
	for _, what := range []struct {
		name          string
		before, after map[string]storetest.Size
	}{{"onboarding", empty, onboarded}, {"tenant", onboarded, letIn}, {"reimage", letIn, over}} {
		b.Run(what.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			var total int64
			for table, now := range what.after {
				grown := storetest.Size{Rows: now.Rows - what.before[table].Rows, Bytes: now.Bytes - what.before[table].Bytes}
				total += grown.Bytes
				if grown.Rows > 0 || grown.Bytes > 0 {
					b.ReportMetric(float64(grown.Rows)/leaving, table+"-rows")
					b.ReportMetric(float64(grown.Bytes)/leaving, table+"-B")
				}
			}
			b.ReportMetric(float64(total)/leaving, "B")
			b.ReportMetric(float64(l.baseline), "B-of-a-baseline")
		})
	}
}

// leaver takes machines into service and out of service.
type leaver struct {
	*process
	machines []*leavingMachine
	baseline int // the length of a baseline
}

type leavingMachine struct {
	api.OnboardingMachine
	system string // MAAS's id
	facts  *taskcatalog.Facts
	node   *servertest.Node // of the running system
}

// comes begins the onboarding of the n-th machine.
func (l *leaver) comes(n int) (look func() standing) {
	l.t.Helper()
	m := &leavingMachine{OnboardingMachine: l.box(n), facts: factsOf(maassim.Box(n))}
	l.machines = append(l.machines, m)
	begun := servertest.Must[api.Onboarding](l.t, l.Broker, http.MethodPost, "/onboardings", api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: m.OnboardingMachine})
	return func() standing {
		o := servertest.Must[api.OnboardingDetail](l.t, l.Broker, http.MethodGet, "/onboardings/"+begun.OnboardingID, nil)
		if o.CurrentStage == "wait_for_agent_enrollment" && m.node == nil {
			m.system = *o.MAASSystemID
			l.boots(m)
			d, task := m.node.Next(l.t)
			l.ends(m, d, task)
		}
		return standing{begun.OnboardingID, o.Status, o.CurrentStage, o.Waiting, o.ErrorMessage}
	}
}

// boots enrols the agent of the system that MAAS has installed.
func (l *leaver) boots(m *leavingMachine) {
	l.t.Helper()
	deployed, _ := l.region.Machine(m.system)
	m.node = l.EnrollMachine(l.t, string(enrolToken.Find(deployed.UserData)), m.Hostname, m.system, m.facts)
}

// turnedOver begins a reimage of a machine.
func (l *leaver) turnedOver(m *leavingMachine) (look func() standing) {
	l.t.Helper()
	former := m.node
	d := servertest.Must[api.Decommission](l.t, l.Broker, http.MethodPost, "/nodes/"+m.Hostname+"/decommission", api.DecommissionStart{Mode: "reimage", Erase: "secure", ForceRelease: true, Reason: "the tenant left"})
	return func() standing {
		now := servertest.Must[api.DecommissionDetail](l.t, l.Broker, http.MethodGet, "/decommissions/"+d.DecommissionID, nil)
		switch {
		case strings.HasSuffix(now.Waiting, "is queued"):
			l.works(m)
		case now.CurrentStage == "wait_for_agent_enrollment" && m.node == former:
			l.boots(m)
		}
		return standing{d.DecommissionID, now.Status, now.CurrentStage, now.Waiting, now.ErrorMessage}
	}
}

// rereads is a time in which a test's broker reads its deny list again. If the clock moves further
// ahead than the list may be old, nobody is answered.
const rereads = 250 * time.Millisecond

// standing is the state of a run.
type standing struct{ run, status, stage, waits, no string }

// all begins runs, and lets time pass while all wait, until they have completed.
func (l *leaver) all(n int, begin func(n int) (look func() standing)) {
	l.t.Helper()
	var left []func() standing
	for i := range n {
		left = append(left, begin(i+1))
	}
	for late := time.Now().Add(10 * time.Minute); len(left) > 0; <-time.After(max(rereads, time.Duration(len(left))*10*time.Millisecond)) { // an operator may not ask all the time
		asleep := true
		left = slices.DeleteFunc(left, func(look func() standing) bool {
			s := look()
			if strings.HasPrefix(s.status, "failed") || time.Now().After(late) {
				l.t.Fatalf("run %s is %s at %s: %s %s", s.run, s.status, s.stage, s.waits, s.no)
			}
			asleep = asleep && s.waits != "" && l.sleeps(s.run)
			return s.status == "completed"
		})
		if asleep {
			l.Advance(5 * time.Second)
			l.rested()
		}
	}
}

// works carries out the open tasks of a node.
func (l *leaver) works(m *leavingMachine) {
	l.t.Helper()
	for _, d := range m.node.Offered(l.t) {
		l.ends(m, d, m.node.Verified(l.t, d))
	}
}

func (l *leaver) ends(m *leavingMachine, d wire.Delivery, task *taskcatalog.Task) {
	l.t.Helper()
	result, report := m.carryOut(l.t, l.Now(), task)
	if r, ok := result.(taskcatalog.ValidateCleanResult); ok && r.Baseline != nil {
		text, err := taskcatalog.Encode(r.Baseline)
		if err != nil {
			l.t.Fatal(err)
		}
		l.baseline = len(text)
	}
	m.node.Finish(l.t, d, task, taskcatalog.OutcomeSucceeded, result, report)
}

// carryOut is the result of a task on a machine in good order.
func (m *leavingMachine) carryOut(t testing.TB, now time.Time, task *taskcatalog.Task) (result any, report taskcatalog.Report) {
	t.Helper()
	switch task.Type {
	case "allocation.revoke_user":
		return taskcatalog.RevokeUserResult{UID: 1001, Existed: true, ProcessesStopped: 3, FilesRemoved: 42, BytesRemoved: 1 << 20}, report
	case "node.drain":
		return taskcatalog.DrainResult{Drained: true, SessionsEnded: 1}, report
	case "node.storage_cleanup":
		return taskcatalog.StorageCleanupResult{FilesRemoved: 30, BytesRemoved: 1 << 30}, report
	case "node.gpu_scrub":
		report.Verdict = taskcatalog.VerdictClean
		return m.scrubbed(), report
	case "node.validate_clean":
		if strings.Contains(string(task.Params), `"take_baseline":true`) {
			return m.baseline(t, now), report
		}
		for _, name := range taskcatalog.LookedAt() {
			report.Checks = append(report.Checks, taskcatalog.Check{Name: name, Made: true})
		}
		report.Judge()
		return taskcatalog.ValidateCleanResult{Verdict: report.Verdict, ChecksMade: len(report.Checks)}, report
	}
	t.Fatalf("node %s was asked for %s", m.Hostname, task.Type)
	return nil, report
}

// An agent lists each package of a system, and each file below /etc that no package owns. These are
// about as many as on a Debian server.
const (
	packages = 740
	ownFiles = 150
)

// baseline is the baseline of the machine's system. The broker stores a baseline by itself, in the
// result of the task that took it, and in the envelopes of a cleanup and of a validation.
func (m *leavingMachine) baseline(t testing.TB, now time.Time) taskcatalog.ValidateCleanResult {
	t.Helper()
	out := taskcatalog.Baseline{TakenAt: now.UTC(), Processes: []string{"/usr/sbin/sshd"}}
	out.Inventory.NICs = []string{"0c:42:a1:00:00:01"}
	for _, g := range m.facts.GPUs {
		out.GPUs = append(out.GPUs, taskcatalog.BaselineGPU{Vendor: g.Vendor, UUID: g.UUID, Serial: g.Serial, PCIAddress: g.PCIAddress, Name: g.Name, MemoryBytes: g.MemoryBytes})
	}
	some := pki.Digest([]byte("some file"))
	for i := range packages {
		out.Packages = append(out.Packages, taskcatalog.BaselineFile{Path: fmt.Sprintf("a-package-%03d", i), Digest: some})
	}
	for i := range ownFiles {
		out.Files = append(out.Files, taskcatalog.BaselineFile{Path: fmt.Sprintf("/etc/some/directory/file-%03d", i), Digest: some, Mode: 0o644})
	}
	digest, err := out.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return taskcatalog.ValidateCleanResult{BaselineDigest: digest, Baseline: &out}
}

// scrubbed is the result for a machine whose GPUs are clean.
func (m *leavingMachine) scrubbed() taskcatalog.GPUScrubResult {
	var covered, none uint64 = 79 << 30, 0
	all := taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteVerified, Reset: taskcatalog.ResetProven}
	out := taskcatalog.GPUScrubResult{Verdict: taskcatalog.VerdictClean, Assurance: all}
	for _, g := range m.facts.GPUs {
		out.GPUs = append(out.GPUs, taskcatalog.GPUScrubbed{
			Vendor: g.Vendor, UUID: g.UUID, Serial: g.Serial, PCIAddress: g.PCIAddress, Name: g.Name, Verdict: taskcatalog.VerdictClean, Assurance: all,
			TotalBytes: g.MemoryBytes, CoveredBytes: &covered, MismatchedWords: &none, RemainingWords: &none, ReadBackBytes: &covered, ProbedBytes: &covered, ProbedNonZeroWords: &none,
		})
	}
	return out
}

// factsOf are the facts that an agent reports for hardware with eight GPUs.
func factsOf(h maassim.Hardware) *taskcatalog.Facts {
	f := servertest.H100s(8)
	f.ChassisSerial, f.DisksListed = h.Serial, true
	for i := range f.GPUs {
		f.GPUs[i].UUID, f.GPUs[i].Serial = fmt.Sprintf("GPU-%s-%d", h.Serial, i), fmt.Sprintf("%s%d", h.Serial, i)
	}
	for i, d := range h.Disks {
		f.Disks = append(f.Disks, taskcatalog.DiskFacts{Name: d.Name, Model: d.Model, Serial: d.Serial, SizeBytes: d.Size, Transport: "pcie", System: i == len(h.Disks)-1})
	}
	slices.SortFunc(f.Disks, func(a, b taskcatalog.DiskFacts) int { return strings.Compare(a.Name, b.Name) })
	return f
}
