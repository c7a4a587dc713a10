package turnover_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

// rows are the failures of a turnover's stages, in the order of the stages.
var rows = []row{
	{
		name: "DisableNode: the inventory update fails, soft reset", at: withoutMAAS, asks: reset, fails: broken("Disable", errDead),
		stops: "disable_node", tries: 3, ends: chain.FailedRetryable, class: broker.UpstreamTransient, node: broker.Active,
		mends: unbroken, order: chain.Resume, after: chain.Completed, last: broker.Active,
	},
	{
		name: "DisableNode: the inventory update fails, before MAAS is asked for anything", at: inMAAS, asks: again, fails: broken("Disable", errDead),
		stops: "disable_node", tries: 3, ends: chain.FailedRetryable, class: broker.UpstreamTransient, node: broker.Active, machine: maassim.Deployed,
		mends: unbroken, order: chain.Resume, after: chain.Completed, last: broker.Active,
	},
	{
		name: "ForceReleaseAllocations: it fails, and the system with its user goes with the machine", at: inMAAS, asks: leave, fails: failing("allocation.revoke_user"),
		ends: chain.Completed, warns: "force_release_allocations was not made", node: broker.Deleted, machine: maassim.Ready,
	},
	{
		name: "ForceReleaseAllocations: it fails, and nothing else would end the user", at: withoutMAAS, asks: leave, fails: failing("allocation.revoke_user"),
		stops: "force_release_allocations", tries: 3, ends: chain.FailedManual, class: broker.ResidueFound, node: broker.Draining, owed: true,
		mends: wellAgain, order: chain.RetryStage, after: chain.Completed, last: broker.Deleted,
	},
	{
		name: "ForceReleaseAllocations: nobody answers, and nothing else would end the user", at: withoutMAAS, asks: leave,
		fails: func(p *place) { p.book.LetIn(p.node, "a-1", "acme", false); silentAgent(p) },
		stops: "force_release_allocations", tries: 1, ends: chain.FailedManual, class: broker.AgentSilent, node: broker.Draining, owed: true,
		mends: wellAgain, order: chain.RetryStage, after: chain.Completed, last: broker.Deleted,
	},
	{
		name: "DrainNode: node-agent unreachable", at: withoutMAAS, asks: reset, fails: silentAgent,
		stops: "drain_node", tries: 1, ends: chain.FailedManual, class: broker.AgentSilent, node: broker.Draining, owed: true,
		mends: wellAgain, order: chain.RetryStage, after: chain.Completed, last: broker.Active,
	},
	{
		name: "DrainNode: node-agent unreachable, and the operator quarantines", at: withoutMAAS, asks: reset, fails: silentAgent,
		stops: "drain_node", tries: 1, ends: chain.FailedManual, class: broker.AgentSilent, node: broker.Draining, owed: true,
		order: chain.Cancel, after: chain.Cancelled, last: broker.Quarantined,
	},
	{
		name: "DrainNode: the drain task fails", at: withoutMAAS, asks: reset, fails: failing("node.drain"),
		stops: "drain_node", tries: 3, ends: chain.FailedManual, class: broker.ResidueFound, node: broker.Draining, owed: true,
		mends: wellAgain, order: chain.RetryStage, after: chain.Completed, last: broker.Active,
	},
	{
		name: "DrainNode: node-agent unreachable, and MAAS ends its system", at: inMAAS, asks: again, fails: silentAgent,
		ends: chain.Completed, warns: "drain_node was not made", node: broker.Active, machine: maassim.Deployed,
	},
	{
		name: "CleanupStorage: the host cleanup fails", at: withoutMAAS, asks: reset, fails: failing("node.storage_cleanup"),
		stops: "cleanup_storage", tries: 3, ends: chain.FailedManual, class: broker.ResidueFound, node: broker.Retired, owed: true,
		mends: wellAgain, order: chain.RetryStage, after: chain.Completed, last: broker.Active,
	},
	{
		name: "ScrubGPU: the scrub fails", at: withoutMAAS, asks: reset, fails: failing("node.gpu_scrub"),
		stops: "scrub_gpu", tries: 3, ends: chain.FailedManual, class: broker.GPUScrubIncomplete, node: broker.Retired, owed: true,
		mends: wellAgain, order: chain.RetryStage, after: chain.Completed, last: broker.Active,
	},
	{
		name: "ScrubGPU: a GPU is not clean", at: withoutMAAS, asks: reset,
		fails: func(p *place) {
			p.book.Change(p.node, func(m *turnovertest.Machine) {
				m.Faulty = map[string]taskcatalog.Code{m.Parts.GPUs[0].UUID: taskcatalog.CodeGPUHolderPresent}
			})
		},
		stops: "scrub_gpu", tries: 3, ends: chain.FailedManual, class: broker.GPUHolderPresent, node: broker.Quarantined, owed: true,
		mends: wellAgain, order: chain.RetryStage, after: chain.Completed, last: broker.Active,
	},
	{
		name: "ValidateCleanNode: residue remains", at: withoutMAAS, asks: reset,
		fails: func(p *place) {
			p.book.Change(p.node, func(m *turnovertest.Machine) {
				m.Residue = []taskcatalog.Finding{{Check: "users", Subject: "mallory"}}
			})
		},
		stops: "validate_clean_node", tries: 3, ends: chain.FailedManual, class: broker.ResidueFound, node: broker.Quarantined, owed: true,
		mends: wellAgain, order: chain.RetryStage, after: chain.Completed, last: broker.Active,
	},
	{
		name: "ReleaseMaasNode: MAAS release fails", at: inMAAS, asks: again, fails: inject(maassim.Internal, "release", -1),
		stops: "release_maas_node", tries: 4, ends: chain.FailedRetryable, class: broker.UpstreamTransient, node: broker.Retired, owed: true, machine: maassim.Deployed,
		mends: relent, order: chain.RetryStage, after: chain.Completed, last: broker.Active,
	},
	{
		name: "ReleaseMaasNode: erase fails, and the site's policy allows none of a machine that stays", at: inMAAS, asks: leave, fails: inject(maassim.EraseFails, "", 2),
		stops: "release_maas_node", tries: 2, ends: chain.FailedManual, class: broker.DiskEraseUnsupported, node: broker.Retired, owed: true, machine: maassim.FailedDiskErasing,
		order: chain.Adopt, after: chain.Reconciled, last: broker.Deleted,
	},
	{
		name: "ReleaseMaasNode: erase fails, and what was done without falls short for another tenant", at: inMAAS, asks: again, fails: inject(maassim.EraseFails, "", 2),
		stops: "issue_clean_certificate", tries: 1, ends: chain.FailedManual, class: broker.EraseDowngraded, node: broker.Quarantined, owed: true, machine: maassim.Deployed,
		order: chain.Cancel, after: chain.Cancelled, last: broker.Quarantined,
	},
	{
		name: "ReleaseMaasNode: erase fails, and may not be left out", at: strict, asks: leave, fails: inject(maassim.EraseFails, "", 2),
		stops: "release_maas_node", tries: 2, ends: chain.FailedManual, class: broker.DiskEraseUnsupported, node: broker.Retired, owed: true, machine: maassim.FailedDiskErasing,
		order: chain.Resume, after: chain.Completed, last: broker.Deleted,
	},
	{
		name: "ReleaseMaasNode: timeout to Ready", at: inMAAS, asks: forget,
		fails: func(p *place) {
			p.region.Timing.ReleaseTimeout = 24 * time.Hour
			inject(maassim.ReleaseHangs, "", 1)(p)
		},
		stops: "release_maas_node", tries: 1, ends: chain.FailedManual, class: broker.BMCPowerFailure, node: broker.Retired, owed: true, machine: maassim.Releasing,
	},
	{
		name: "ReleaseMaasNode: an operator deletes the machine out of band", at: inMAAS, asks: leave,
		fails: func(p *place) {
			p.book.Broken = func(m string) error {
				if m == "CutOff" {
					_ = p.region.ByHand(maassim.DeletedByHand, p.book.Machine(p.node).MAASSystemID)
				}
				return nil
			}
		},
		stops: "release_maas_node", tries: 1, ends: chain.FailedManual, class: broker.StateAmbiguity, node: broker.Retired, owed: true,
		order: chain.Adopt, after: chain.Reconciled, last: broker.Deleted,
	},
	{
		name: "PowerOffMaasNode: MAAS power-off fails", at: inMAAS, asks: leave,
		fails: func(p *place) {
			p.book.Broken = func(m string) error {
				if m == "Wiped" {
					_ = p.region.ByHand(maassim.PoweredOnByHand, p.book.Machine(p.node).MAASSystemID)
					inject(maassim.PowerFails, "", -1)(p)
				}
				return nil
			}
		},
		stops: "power_off_maas_node", tries: 4, ends: chain.FailedManual, class: broker.BMCPowerFailure, node: broker.Retired, owed: true, machine: maassim.Ready,
		mends: func(p *place) { unbroken(p); relent(p) }, order: chain.Resume, after: chain.Completed, last: broker.Deleted,
	},
	{
		name: "RetireGPUaaSNode: the inventory transition fails", at: withoutMAAS, asks: leave,
		fails: func(p *place) {
			p.book.Broken = func(m string) error {
				switch m {
				case "Certify": // somebody's change, after the drain
					p.book.Change(p.node, func(m *turnovertest.Machine) { m.Status = broker.Draining })
				case "Retire":
					return errDead
				}
				return nil
			}
		},
		stops: "retire_gpuaas_node", tries: 3, ends: chain.FailedRetryable, class: broker.UpstreamTransient, node: broker.Draining, owed: true,
		mends: unbroken, order: chain.RetryStage, after: chain.Completed, last: broker.Deleted,
	},
	{
		name: "RemoveGPUaaSNodeRecord: node.uninstall fails, and the node remains retired", at: withoutMAAS, asks: leave, fails: failing("node.uninstall"),
		stops: "remove_gpuaas_node_record", tries: 3, ends: chain.FailedRetryable, class: broker.UpstreamTransient, node: broker.Retired, owed: true,
		mends: wellAgain, order: chain.RetryStage, after: chain.Completed, last: broker.Deleted,
	},
	{
		name: "RemoveGPUaaSNodeRecord: its agent is gone with its machine", at: inMAAS, asks: leave, fails: failing("node.uninstall"),
		ends: chain.Completed, node: broker.Deleted, machine: maassim.Ready,
	},
	{
		name: "CleanupSecrets: the cleanup fails, and is left for later", at: inMAAS, asks: leave, fails: broken("ForgetSecrets", errDead),
		ends: chain.Completed, warns: "secrets could not be removed", node: broker.Deleted, machine: maassim.Ready,
	},
	{
		name: "RemoveMaasRecord: MAAS delete fails, and the record is left there", at: inMAAS, asks: forget, fails: inject(maassim.Internal, "delete", -1),
		ends: chain.Completed, warns: "still in MAAS", node: broker.Deleted, machine: maassim.Ready,
	},
}

func TestRowsOfTurnoversThatFail(t *testing.T) {
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.tell(t)
		})
	}
}

// An operator continues without a drain, with a reason: the certificate states the override.
func TestRowDrainNodeAndTheOperatorGoesOnWithoutIt(t *testing.T) {
	p := withoutMAAS(t)
	p.book.Change(p.node, func(m *turnovertest.Machine) { m.Fails = map[string]taskcatalog.Code{"node.drain": "handler_failed"} })
	r := p.begin(reset)
	if r.Stage != "drain_node" {
		t.Fatalf("%s at %s", r.Status, r.Stage)
	}
	if _, err := p.engine.Act(ctx, chain.Order{ID: r.ID, Actor: ada, Action: chain.Resume, Without: "drain_node", Reason: "looked at it"}); err != nil {
		t.Fatal(err)
	}
	wellAgain(p)
	if r = p.goOn(r.ID); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	report, err := p.book.Verify(p.state(r.ID).Issued)
	if err != nil || len(report.Clean.Overrides) != 1 || report.Clean.Overrides[0].Stage != "drain_node" || report.Clean.Overrides[0].By != "ada" {
		t.Errorf("%+v, %v", report, err)
	}
}
