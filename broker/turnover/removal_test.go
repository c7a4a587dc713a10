package turnover_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

var leave = turnover.Request{Mode: turnover.FullDecommission, ForceRelease: true, Erase: "secure", Reason: "hardware_removal"}

// removals is the complete list of a full decommission.
var removals = strings.Fields(`disable_node force_release_allocations drain_node scrub_gpu erase_local_disks load_site_config release_maas_node
	power_off_maas_node issue_clean_certificate retire_gpuaas_node remove_gpuaas_node_record cleanup_secrets remove_maas_record`)

func TestANodeLeavesTheFleetForGood(t *testing.T) {
	s := newSite(t)
	s.book.LetIn(s.id, "a-1", "acme", true)
	s.book.Change(s.id, func(m *turnovertest.Machine) {
		m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: "NVME-1", State: broker.DeviceFound})
		m.Parts.Facts.Disks = append(m.Parts.Facts.Disks, taskcatalog.DiskFacts{Name: "nvme0n1", Serial: "NVME-1", Model: "X", SizeBytes: 1 << 40})
	})
	req := leave
	req.RemoveRecord = true
	r := s.turnOver(req)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	var want []string
	for _, stage := range removals {
		how := " succeeded"
		if stage == "power_off_maas_node" || stage == "retire_gpuaas_node" || stage == "remove_gpuaas_node_record" {
			how = " skipped" // MAAS switched the machine off; the drain retired the node; the agent is gone with its system
		}
		want = append(want, stage+how)
	}
	if got := s.went(r.ID); !slices.Equal(got, want) {
		t.Errorf("it went\n%v, want\n%v", got, want)
	}
	if m := s.book.Machine(s.id); m.Status != broker.Deleted || !s.book.Forgotten(s.id) || len(s.book.Forced) != 1 {
		t.Errorf("the node is %s, forced %v", m.Status, s.book.Forced)
	}
	if s.region.Happened(s.serial, "release") != 1 || len(s.region.Machines()) != 0 {
		t.Errorf("MAAS has %+v", s.machine())
	}
	report, err := s.book.Verify(s.state(r.ID).Issued)
	if err != nil || report.Holds() {
		t.Fatalf("nobody validated it, and its certificate meets the policy: %v", err)
	}
	for _, task := range s.book.Tasks(s.id, "node.uninstall") {
		t.Errorf("the agent of a wiped machine was asked for %s", task.ID)
	}
}

// MAAS failed to erase the disks: the node does not leave before a person says so, whatever the
// policy allows for a machine that stays. The certificate is made when MAAS has the machine, and
// states MAAS's result; so does the record of the deleted node.
func TestANodeDoesNotLeaveWithDisksThatWereToBeErased(t *testing.T) {
	for name, fails := range map[string]int{"MAAS erases": 0, "MAAS erases at the second try": 1, "MAAS never erases": 2} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if !s.place.Policy.ReleaseFallbackNoErase {
				t.Fatal("the policy is another than it was")
			}
			s.region.Inject(maassim.Fault{Kind: maassim.EraseFails, Times: fails})
			r := s.turnOver(leave)
			did, ends, reason := certificate.MethodMAASSecureErase, chain.Completed, ""
			if fails == 2 {
				s.failed(r, "release_maas_node", broker.DiskEraseUnsupported, "failed_disk_erase")
				if m := s.book.Machine(s.id); m.Status == broker.Deleted || s.state(r.ID).Issued != "" {
					t.Fatalf("the node is %s, with certificate %q", m.Status, s.state(r.ID).Issued)
				}
				r = s.act(r.ID, chain.Adopt)
				did, ends, reason = certificate.MethodNone, chain.Reconciled, "times to erase the disks"
			}
			m := s.book.Machine(s.id)
			if r.Status != ends || m.Status != broker.Deleted {
				t.Fatalf("%s at %s: %+v; the node is %s", r.Status, r.Stage, r.Failure, m.Status)
			}
			issued := s.state(r.ID).Issued
			if !strings.Contains(m.StatusReason, "it left with certificate "+issued) {
				t.Errorf("the record of the node says %q", m.StatusReason)
			}
			report, err := s.book.Verify(issued)
			if err != nil {
				t.Fatal(err)
			}
			if report.Clean.FinishedAt.Before(s.state(r.ID).WipedAt) {
				t.Errorf("it speaks of the time until %v, and MAAS had the machine at %v", report.Clean.FinishedAt, s.state(r.ID).WipedAt)
			}
			for _, d := range report.Clean.Devices {
				if d.Kind == certificate.KindDisk && d.Method != did {
					t.Errorf("it says that disk %s was erased by %s, want %s", d.Serial, d.Method, did)
				}
			}
			if all := report.Clean.Downgrades; len(all) == 0 || !strings.Contains(all[0].Reason, reason) || all[0].Asked != certificate.MethodMAASSecureErase || all[0].Did != did {
				t.Errorf("downgrades %+v", all)
			}
		})
	}
}

// An agent that works on an erase for longer than the limit for silence is not silent: its
// machine is not released meanwhile.
func TestAnEraseThatTakesLongIsWaitedFor(t *testing.T) {
	s := newSite(t)
	s.place.Policy.DrainTimeoutSeconds = 60
	s.book.Change(s.id, func(m *turnovertest.Machine) {
		m.Works = map[string]time.Duration{"node.disk_erase": 3 * time.Hour}
		m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: "NVME-1", State: broker.DeviceFound})
		m.Parts.Facts.Disks = append(m.Parts.Facts.Disks, taskcatalog.DiskFacts{Name: "nvme0n1", Serial: "NVME-1", Model: "X", SizeBytes: 1 << 40})
	})
	r := s.turnOver(leave)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	if went := s.went(r.ID); !slices.Contains(went, "erase_local_disks succeeded") {
		t.Errorf("it went %v", went)
	}
}

// An unclean node, or a node with a silent agent, leaves all the same, and its certificate states
// the limits.
func TestWhatCannotBeCleanedLeavesAllTheSame(t *testing.T) {
	for name, change := range map[string]func(*turnovertest.Machine){
		"a GPU that is not clean": func(m *turnovertest.Machine) {
			m.Faulty = map[string]taskcatalog.Code{m.Parts.GPUs[0].UUID: taskcatalog.CodeGPUHardwareFault}
		},
		"a silent agent":     func(m *turnovertest.Machine) { m.Silent = true },
		"a drain that fails": func(m *turnovertest.Machine) { m.Fails = map[string]taskcatalog.Code{"node.drain": "handler_failed"} },
		"a user that would stay": func(m *turnovertest.Machine) {
			m.Fails = map[string]taskcatalog.Code{"allocation.revoke_user": "handler_failed"}
		},
		"one that is quarantined": func(m *turnovertest.Machine) { m.Status = broker.Quarantined },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.place.Policy.DrainTimeoutSeconds = 60
			s.book.LetIn(s.id, "a-1", "acme", true)
			s.book.Change(s.id, change)
			r := s.turnOver(leave)
			if m := s.book.Machine(s.id); r.Status != chain.Completed || m.Status != broker.Deleted {
				t.Fatalf("%s at %s: %+v; the node is %s", r.Status, r.Stage, r.Failure, m.Status)
			}
			if report, err := s.book.Verify(s.state(r.ID).Issued); err != nil || report.Holds() {
				t.Errorf("its certificate: %v", err)
			}
		})
	}
}

// The parts of a node without any report are unknown: a leaving node leaves uncleaned, with a
// statement; a staying node is not let in.
func TestANodeThatHasNeverSaidWhatItIsMadeOf(t *testing.T) {
	unsaid := func(m *turnovertest.Machine) { m.Parts = turnover.Parts{NoFacts: true} }
	w := newWorld(t)
	w.book.Change(node, unsaid)
	r := w.begin(leave)
	if r.Stage != "erase_local_disks" || r.Failure == nil || r.Failure.Code != "facts_unknown" { // nothing else erases the disks
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	r = w.without(r)
	if m := w.book.Machine(node); r.Status != chain.Completed || m.Status != broker.Deleted {
		t.Fatalf("%s at %s: %+v; the node is %s", r.Status, r.Stage, r.Failure, m.Status)
	}
	for _, stage := range []string{"scrub_gpu"} {
		warned := func(line string) bool {
			return strings.HasPrefix(line, stage+" was not made: node "+node+" has never reported")
		}
		if !slices.Contains(w.went(r.ID), stage+" skipped") || !slices.ContainsFunc(w.state(r.ID).Warnings, warned) {
			t.Errorf("%s: it went %v, and says %q", stage, w.went(r.ID), w.state(r.ID).Warnings)
		}
	}
	if n := len(w.book.Tasks(node, "node.gpu_scrub")) + len(w.book.Tasks(node, "node.disk_erase")); n > 0 {
		t.Errorf("its agent was asked for %d tasks", n)
	}
	short(t, w.certified(r.ID), certificate.CodeNoDevices, "")

	w = newWorld(t)
	w.book.Change(node, unsaid)
	if r := w.begin(turnover.Request{Mode: turnover.SoftReset, Reason: "r"}); !r.Status.Stopped() || r.Failure.Code != "facts_unknown" {
		t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	if m := w.book.Machine(node); m.Status == broker.Active || !m.TurnoverOwed {
		t.Errorf("the node is %s, owed %v", m.Status, m.TurnoverOwed)
	}
}

// A node with GPUs on record is asked to scrub them, even without a report.
func TestGPUsOnRecordAreScrubbedOfANodeThatGoes(t *testing.T) {
	w := newWorld(t)
	w.book.Change(node, func(m *turnovertest.Machine) { m.Parts.NoFacts, m.Parts.Facts = true, taskcatalog.Facts{} })
	if r := w.without(w.begin(leave)); r.Status != chain.Completed || !slices.Contains(w.went(r.ID), "scrub_gpu succeeded") {
		t.Errorf("%s at %s: %+v; it went %v", r.Status, r.Stage, r.Failure, w.went(r.ID))
	}
}

// Without MAAS the agent must have removed itself before the node is deleted.
func TestWithoutMAASTheAgentRemovesItself(t *testing.T) {
	w := newWorld(t)
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Fails = map[string]taskcatalog.Code{"node.uninstall": "handler_failed"}
	})
	r := w.begin(leave)
	if r.Stage != "remove_gpuaas_node_record" || !r.Status.Stopped() {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	if m := w.book.Machine(node); m.Status != broker.Retired {
		t.Errorf("the node is %s", m.Status)
	}
	w.book.Change(node, func(m *turnovertest.Machine) { m.Fails = nil })
	if r = w.act(r.ID, chain.RetryStage); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	if m := w.book.Machine(node); m.Status != broker.Deleted {
		t.Errorf("the node is %s", m.Status)
	}
	for _, stage := range []string{"load_site_config", "release_maas_node", "power_off_maas_node", "remove_maas_record"} {
		if !slices.Contains(w.went(r.ID), stage+" skipped") {
			t.Errorf("%s was not skipped: %v", stage, w.went(r.ID))
		}
	}
}

// A person removes secrets that could not be removed; they delay nothing else.
func TestSecretsThatStayAreToldOf(t *testing.T) {
	s := newSite(t)
	s.book.Broken = func(m string) error {
		if m == "ForgetSecrets" {
			return broker.Errorf(broker.Refused, "secrets_refused", "no")
		}
		return nil
	}
	r := s.turnOver(leave)
	if st := s.state(r.ID); r.Status != chain.Completed || !st.SecretsLeft || !slices.Contains(st.Warnings, "the node's secrets could not be removed") {
		t.Errorf("%s at %s: %+v", r.Status, r.Stage, st)
	}
}

// A node that leaves need not be clean.
func TestANodeThatIsNotCleanCanLeave(t *testing.T) {
	s := newSite(t)
	s.book.Change(s.id, faulty)
	if r := s.turnOver(leave); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	if m := s.book.Machine(s.id); m.Status != broker.Deleted {
		t.Errorf("the node is %s", m.Status)
	}
}

// If its removal fails for any reason, a node stays retired: a silent agent, a queue that refuses
// the task, a person's cancel.
func TestANodeThatIsNotRemovedStaysRetired(t *testing.T) {
	refused := broker.Errorf(broker.Refused, "task_type_unsupported", "its agent knows no such task")
	for name, hinder := range map[string]func(*world){
		"silent": func(w *world) {
			w.book.Change(node, func(m *turnovertest.Machine) { m.Silent = true })
		},
		"refused": func(w *world) {
			w.book.Broken = func(method string) error {
				if method == "Ask" && w.book.Machine(node).Status == broker.Removing {
					return refused
				}
				return nil
			}
		},
		"cancelled": func(w *world) {
			w.book.Change(node, func(m *turnovertest.Machine) { m.Silent = true })
			w.lossy.Fate = func(int) chaintest.Fate {
				if w.book.Machine(node).Status == broker.Removing && w.run("r-1").Asked == "" {
					_, _ = w.engine.Act(ctx, chain.Order{ID: "r-1", Actor: ada, Action: chain.Cancel, Reason: "because"})
				}
				return chaintest.Done
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.policy.DrainTimeoutSeconds = 60
			hinder(w)
			r := w.begin(leave)
			if r.Status.Moving() || r.Status == chain.Completed {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			if m := w.book.Machine(node); m.Status != broker.Retired || !m.TurnoverOwed {
				t.Errorf("the run is %s at %s, the node %s, turnover owed %v", r.Status, r.Stage, m.Status, m.TurnoverOwed)
			}
		})
	}
}

// The agent's own result deletes its node: a later failure of the run's own deletion does not
// matter.
func TestANodeThatItsAgentHasDeletedIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.book.Broken = func(method string) error {
		if method == "Deleted" {
			return broker.Errorf(broker.Refused, "broken", "cannot do %s", method)
		}
		return nil
	}
	r := w.begin(leave)
	if m := w.book.Machine(node); r.Status != chain.Completed || m.Status != broker.Deleted {
		t.Errorf("%s at %s: %+v; the node is %s", r.Status, r.Stage, r.Failure, m.Status)
	}
}

// A run that a person stopped during the removal and then reran takes the removal back before the
// drain.
func TestARemovalThatWasStoppedBeginsAnew(t *testing.T) {
	w := newWorld(t)
	w.policy.DrainTimeoutSeconds = 60
	w.book.Change(node, func(m *turnovertest.Machine) { m.Works = map[string]time.Duration{"node.uninstall": 10 * time.Minute} })
	r, err := w.start(leave)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if w.book.Machine(node).Status == broker.Removing {
			break
		}
		if worked, err := w.engine.Step(ctx); err != nil {
			t.Fatal(err)
		} else if !worked {
			w.clock.Advance(time.Second)
		}
	}
	if _, err := w.engine.Act(ctx, chain.Order{ID: r.ID, Actor: ada, Action: chain.MarkManual, Reason: "wait"}); err != nil {
		t.Fatal(err)
	}
	if m := w.book.Machine(node); m.Status != broker.Removing {
		t.Fatalf("the node is %s", m.Status)
	}
	if r = w.act(r.ID, chain.Rerun); r.Status != chain.Completed || w.book.Machine(node).Status != broker.Deleted {
		t.Errorf("%s at %s: %+v; the node is %s", r.Status, r.Stage, r.Failure, w.book.Machine(node).Status)
	}
	if went := w.went(r.ID); slices.Contains(went, "disable_node failed") {
		t.Errorf("it went %v", went)
	}
}

// Parts removed while the run was stopped stay removed after a rerun.
func TestARunOfANodeThatIsGoneBeginsAnewAndEnds(t *testing.T) {
	w := newWorld(t)
	w.policy.DrainTimeoutSeconds = 60
	w.book.Broken = func(method string) error {
		if method == "ForgetSecrets" && w.book.Machine(node).Status == broker.Deleted && w.run("r-1").Asked == "" {
			_, _ = w.engine.Act(ctx, chain.Order{ID: "r-1", Actor: ada, Action: chain.MarkManual, Reason: "wait"})
		}
		return nil
	}
	r := w.begin(leave)
	if m := w.book.Machine(node); !r.Status.Stopped() || m.Status != broker.Deleted {
		t.Fatalf("%s at %s: %+v; the node is %s", r.Status, r.Stage, r.Failure, m.Status)
	}
	w.book.Broken = nil
	if r = w.act(r.ID, chain.Rerun); r.Status != chain.Completed || w.book.Machine(node).Status != broker.Deleted {
		t.Errorf("%s at %s: %+v; the node is %s; it went %v", r.Status, r.Stage, r.Failure, w.book.Machine(node).Status, w.went(r.ID))
	}
}
