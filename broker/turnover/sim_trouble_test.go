//go:build !race

package turnover_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

var operations = strings.Fields(`list read update query_power_state set_boot_disk set_storage_layout link_subnet subnets whoami allocate
	set_workload_annotations deploy get_token events release release power_off power_off delete get_config set_config version`)

// troubles draws faults.
func (s *simulation) troubles() {
	for range s.by.IntN(6) {
		f := maassim.Draw(s.by, operations...)
		s.later(s.until(2*time.Hour), func() { s.region.Inject(f) })
	}
	if s.chance(40) {
		f := maassim.Fault{Kind: pick(s, maassim.EraseFails, maassim.EraseFails, maassim.ReleaseHangs, maassim.PowerFails, maassim.DeployFails), Times: 1 + s.by.IntN(3)}
		s.later(s.until(2*time.Hour), func() { s.region.Inject(f) })
	}
	if s.chance(35) {
		b, kind := pick(s, s.boxes...), pick(s, maassim.DeletedByHand, maassim.TakenByHand, maassim.ReadyByHand, maassim.LockedByHand)
		s.later(s.until(3*time.Hour), func() { s.byHand(b, kind) })
	}
	if s.chance(8) {
		kind := pick(s, maassim.DeletedByHand, maassim.ReadyByHand)
		s.later(s.until(3*time.Hour), func() {
			for _, b := range s.boxes {
				s.byHand(b, kind)
			}
		})
	}
	if s.chance(15) {
		from := s.until(2 * time.Hour)
		freeze := chain.SiteHold{Site: s.site.Name, Kind: chain.Freeze, Reason: "storm"}
		s.later(from, func() { s.must(s.store.PlaceHold(ctx, ada, freeze)) })
		s.later(from+s.until(3*time.Hour), func() { s.must(s.store.LiftHold(ctx, ada, s.site.Name, chain.Freeze, "over")) })
	}
	if s.chance(15) {
		from := s.until(2 * time.Hour)
		s.later(from, func() { s.region.Inject(maassim.Fault{Kind: maassim.Unreachable, Times: -1}) })
		s.later(from+s.until(3*time.Hour), func() { s.region.Relent(maassim.Unreachable) })
	}
	for range s.by.IntN(3) {
		s.later(s.until(3*time.Hour), func() { s.showPreviousSystem(pick(s, s.boxes...)) })
	}
	for range s.by.IntN(3) {
		b, twice := pick(s, s.boxes...), s.chance(30)
		from := s.until(3 * time.Hour)
		s.later(from, func() { s.doubled(b) })
		if twice {
			s.later(from+s.until(time.Hour), func() { s.doubled(b) })
		}
	}
	s.ofAgents()
	s.ofTheBroker()
}

// rekeyed is a node with a new key, which somebody may copy as well.
func (s *simulation) rekeyed(b *box) {
	if !s.calmed && s.chance(8) {
		s.later(s.until(time.Minute), func() { s.doubled(b) })
		s.later(time.Minute+s.until(20*time.Minute), s.answers)
	}
}

// doubled lets two parties act with a node's identity: one renews with a replaced certificate, or
// both poll.
func (s *simulation) doubled(b *box) {
	if s.book.Conflict(b.id) {
		s.counts["identity conflicts"]++
		b.conflictAt = s.clock.Now()
		s.say("two have the identity of %s", b.id)
	}
}

// answers is a person who accepts the conflict of each run stopped by a conflict.
func (s *simulation) answers() {
	for _, r := range s.runs {
		if now := s.run(r.id); now.Status.Stopped() && now.Failure != nil && now.Failure.Code == "identity_conflict" {
			s.order(r, chain.Adopt, "")
		}
	}
}

// ofNode are the types of tasks that runs ask a node for.
var ofNode = strings.Fields(`node.drain node.rotate_identity node.storage_cleanup node.gpu_scrub node.validate_clean node.uninstall allocation.revoke_user node.disk_erase`)

// byHand is a person's action in MAAS, unknown to Hostler.
func (s *simulation) byHand(b *box, kind maassim.Kind) {
	if _, there := s.region.Machine(b.systemID); there {
		s.say("somebody: machine %s %s", b.systemID, kind)
		s.must(s.region.ByHand(kind, b.systemID))
	}
}

// showPreviousSystem lets the former system of a machine show its certificate.
func (s *simulation) showPreviousSystem(b *box) {
	before := s.book.Machine(b.id)
	s.book.ShowFormerSystem(b.id)
	after := s.book.Machine(b.id)
	if after.ShownAt().After(before.ShownAt()) {
		s.counts["previous systems"]++
		s.say("the previous system of %s shows its certificate", b.id)
	}
}

// ofAgents are the troubles of nodes: agents that fall silent, for a while or until another
// system, failing tasks, and unclean GPUs and checks.
func (s *simulation) ofAgents() {
	for _, b := range s.boxes {
		if s.chance(20) {
			from := s.until(2 * time.Hour)
			s.later(from, func() { s.silence(b, true) })
			if s.chance(60) {
				s.later(from+s.until(3*time.Hour), func() { s.silence(b, false) })
			}
		}
		if s.chance(20) {
			kind, from := pick(s, ofNode...), s.until(2*time.Hour)
			s.later(from, func() {
				s.book.Change(b.id, func(m *turnovertest.Machine) { m.Fails = map[string]taskcatalog.Code{kind: "handler_failed"} })
			})
			s.later(from+s.until(time.Hour), func() { s.book.Change(b.id, func(m *turnovertest.Machine) { m.Fails = nil }) })
		}
		if s.chance(25) {
			kind, times := pick(s, ofNode...), 1+s.by.IntN(4)
			s.later(s.until(time.Hour), func() {
				s.say("the next tasks %s of %s are cancelled: %d", kind, b.id, times)
				s.book.Change(b.id, func(m *turnovertest.Machine) { m.Cancels = map[string]int{kind: times} })
			})
		}
		if s.chance(25) {
			from := s.until(2 * time.Hour)
			s.later(from, func() { s.dirty(b) })
			s.later(from+s.until(3*time.Hour), func() { s.mend(b) })
		}
	}
	if s.chance(10) {
		from := s.until(2 * time.Hour)
		s.later(from, func() { s.away = true })
		s.later(from+s.until(3*time.Hour), func() { s.away = false })
	}
}

func (s *simulation) silence(b *box, silent bool) {
	s.say("the agent of %s is silent: %v", b.id, silent)
	s.book.Change(b.id, func(m *turnovertest.Machine) { m.Silent = silent })
	s.hear(b)
}

// dirty makes a node unclean, in one of its GPUs or as a whole.
func (s *simulation) dirty(b *box) {
	gpu := s.chance(50)
	s.say("%s is not clean, in a GPU: %v", b.id, gpu)
	s.book.Change(b.id, func(m *turnovertest.Machine) {
		if gpu {
			m.Faulty = map[string]taskcatalog.Code{m.Parts.GPUs[0].UUID: pick(s, taskcatalog.CodeGPUHardwareFault, taskcatalog.CodeGPUHolderPresent)}
			return
		}
		m.Residue = []taskcatalog.Finding{{Check: taskcatalog.LookedAt()[0], Subject: "left by a tenant"}}
		b.fault = append(b.fault, span{from: s.clock.Now()})
	})
}

// mend is a person who repairs a node.
func (s *simulation) mend(b *box) {
	s.book.Change(b.id, func(m *turnovertest.Machine) { m.Faulty, m.Residue = nil, nil })
	for i := range b.fault {
		if b.fault[i].to.IsZero() && !s.unmended {
			b.fault[i].to = s.clock.Now()
			s.say("%s is mended", b.id)
		}
	}
}

// ofTheBroker makes a method of the broker's records fail for a while.
func (s *simulation) ofTheBroker() {
	if !s.chance(30) {
		return
	}
	method := pick(s, "Node", "Disable", "ForceRelease", "Occupants", "Quarantine", "Retire", "CutOff", "Wiped", "PreviousSystem", "Remove", "Deleted", "ForgetSecrets", "Enable", "Ask", "Parts", "Proof", "Accepted", "Certify", "Prepare", "Bundle", "Activate", "InUse")
	kind, from, down := pick(s, broker.Unavailable, broker.Unavailable, broker.Refused), s.until(2*time.Hour), false
	s.later(from, func() { s.say("%s fails", method); down = true })
	s.later(from+s.until(time.Hour), func() { s.say("%s works again", method); down = false })
	s.book.Broken = func(m string) error {
		if down && m == method && s.stepping != "" {
			return broker.Errorf(kind, "broken", "cannot do %s: it is broken", method)
		}
		return nil
	}
}

// tardy are the operations that a region may carry out when nobody waits for them any more.
var tardy = []string{"allocate", "set_workload_annotations", "deploy", "release", "power_off", "delete"}

// late carries out a change after its broker has given up waiting, or has died; often somebody
// cancels the run meanwhile.
func (s *simulation) late(req *http.Request, op string, b *box) (*http.Response, error) {
	r := s.runOf(s.stepping)
	raw, err := io.ReadAll(req.Body)
	s.must(err)
	later := req.Clone(ctx)
	req.Body, later.Body = io.NopCloser(bytes.NewReader(raw)), io.NopCloser(bytes.NewReader(raw))
	if s.dies = s.chance(40); !s.dies {
		s.clock.Advance(time.Duration(1+s.by.IntN(60)) * time.Second)
	}
	if s.chance(40) {
		s.later(time.Duration(s.by.IntN(90))*time.Second, func() { s.order(r, chain.Cancel, "") })
	}
	s.say("%s of %s is late", op, r.id)
	s.later(time.Duration(1+s.by.IntN(170))*time.Second, func() {
		before, _ := s.region.Machine(b.systemID)
		again := op == "deploy" && s.handled(b.systemID)
		if again {
			r.passes++ // a person gave it back meanwhile, and MAAS takes it for one of its own
		}
		if _, err := s.carry(later, op, b, r); err != nil {
			if again {
				r.passes--
			}
			return // the region is away just then
		}
		s.counts["calls carried out late"]++
		after, there := s.region.Machine(b.systemID)
		s.say("%s of %s is carried out: machine %s was %s and is %s", op, r.id, b.systemID, before.Status, after.Status)
		if again && after.Status == before.Status {
			r.passes-- // MAAS has not deployed it
		}
		if now := s.run(r.id); now.Status.Ended() && (after.Status != before.Status || !there) && !s.handled(b.systemID) {
			s.wrong("%s of run %s, which is %s, makes machine %s %s: it was %s", op, r.id, now.Status, b.systemID, after.Status, before.Status)
		}
	})
	return nil, io.ErrUnexpectedEOF
}
