//go:build !race

package turnover_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/test/maassim"
)

var moving = chain.Filter{Statuses: []chain.Status{chain.Pending, chain.Running, chain.Compensating}}

// play runs until nothing happens any more, ends all troubles, lets people repair stopped runs,
// and checks that every run has ended.
func (s *simulation) play() {
	s.due()
	s.settle()
	s.calm()
	for _, r := range s.runs {
		if s.run(r.id).Status.Stopped() {
			s.counts["runs stopped"]++
		}
	}
	for round := 0; round < 3 && !s.t.Failed(); round++ {
		for _, r := range s.runs {
			if s.run(r.id).Status.Stopped() && s.chance(80) {
				s.order(r, pick(s, chain.Resume, chain.RetryStage, chain.Rerun, chain.RestartClean, chain.Cancel, chain.Adopt), "")
			}
		}
		s.settle()
	}
	for _, r := range s.runs {
		if s.run(r.id).Status.Stopped() {
			s.order(r, chain.Cancel, "")
		}
	}
	s.settle()
	for _, r := range s.runs {
		if now := s.run(r.id); now.Status.Moving() {
			s.wrong("run %s is %s when nothing is due", r.id, now.Status)
		}
	}
	if s.chance(40) && !s.t.Failed() {
		s.bringOn()
	}
}

// calm ends all troubles: faults are repaired, and silent agents answer.
func (s *simulation) calm() {
	s.say("all troubles pass")
	s.region.Relent()
	s.credentials(s.region.RenewKeys("admin"))
	s.book.Broken, s.away, s.watching = nil, false, false
	for _, b := range s.boxes {
		s.mend(b)
		s.book.Change(b.id, func(m *turnovertest.Machine) { m.Silent, m.Fails, m.Cancels = false, nil, nil })
		s.hear(b)
	}
}

// bringOn checks that any node can be brought back into use once all troubles are over.
func (s *simulation) bringOn() {
	for _, b := range s.boxes {
		m, there := s.region.Machine(b.systemID)
		if !there || s.book.Machine(b.id).Status == broker.Deleted || s.live(b.id) != nil || s.handled(b.systemID) || m.Status == maassim.DiskErasing {
			continue
		}
		s.profile.Policy.AcceptMAASErase, s.profile.Policy.StageRetries, s.lossy.Fate, s.calmed = true, nil, nil, true
		if s.chance(30) {
			s.removes(b)
		} else {
			s.reimages(b)
		}
		return
	}
}

// reimages brings a node back, with a second reimage if MAAS already had its machine and erased
// nothing for the first: a person lets the first run continue to its certificate.
func (s *simulation) reimages(b *box) {
	for range 2 {
		r := s.start(b, turnover.Request{Mode: turnover.Reimage, ForceRelease: true, Erase: "secure", Reason: "bring it on"})
		if r == nil {
			s.wrong("node %s takes no reimage", b.id)
			return
		}
		s.settle()
		if now := s.run(r.id); now.Stage == "release_maas_node" && now.Failure != nil && now.Failure.Code == "erase_not_made" {
			s.order(r, chain.Adopt, "")
			s.settle()
		}
		now := s.run(r.id)
		if now.Status == chain.Completed || now.Status == chain.Reconciled {
			s.counts["nodes brought on at the end"]++
			return
		}
		if now.Failure == nil || now.Failure.Class != chain.Class(broker.EraseDowngraded) {
			s.wrong("node %s is not brought on: its reimage is %s at %s: %+v", b.id, now.Status, now.Stage, now.Failure)
			return
		}
		s.order(r, chain.Cancel, "")
		s.settle()
	}
	s.wrong("node %s is not brought on by two reimages", b.id)
}

// removes has a node leave the fleet, clean or not.
func (s *simulation) removes(b *box) {
	if s.chance(50) {
		s.dirty(b)
	}
	r := s.start(b, turnover.Request{Mode: turnover.FullDecommission, ForceRelease: true, Reason: "it leaves"})
	if r == nil {
		s.wrong("node %s takes no full decommission", b.id)
		return
	}
	s.settle()
	if now := s.run(r.id); now.Status != chain.Completed {
		s.wrong("node %s does not leave: its run is %s at %s: %+v", b.id, now.Status, now.Stage, now.Failure)
	}
	s.counts["nodes brought on at the end"]++
}

// settle runs until nothing is due any more.
func (s *simulation) settle() {
	s.t.Helper()
	s.later(time.Hour, s.caretaker)
	for range 30000 {
		if s.t.Failed() {
			return
		}
		s.due()
		if s.second != nil && s.chance(50) {
			s.engine, s.second = s.second, s.engine
		}
		s.agents()
		worked, err := s.engine.Step(ctx)
		if errors.Is(err, chaintest.ErrKilled) {
			s.engine = s.broker()
		} else if err != nil && !errors.Is(err, chain.ErrLost) {
			s.wrong("%v", err)
		}
		s.check()
		s.stepping = ""
		if worked || err != nil {
			continue
		}
		next, err := s.store.NextDue(ctx)
		s.must(err)
		if next.IsZero() {
			if runs, _ := s.store.Runs(ctx, moving); len(runs) == 0 && len(s.plan) == 0 {
				return
			}
			next = s.clock.Now().Add(time.Second)
		}
		s.clock.AdvanceTo(next)
	}
	runs, _ := s.store.Runs(ctx, moving)
	for _, r := range runs {
		s.t.Logf("%s at %s is %s, due %v, attempt %d: %s", r.ID, r.Stage, r.Status, r.DueAt.Sub(s.clock.Now()), r.Attempt, r.Waiting)
	}
	s.wrong("it does not come to an end")
}

// due executes the plan up to now. If the plan is the only thing left, due waits for it.
func (s *simulation) due() {
	clear(s.seen)
	if !s.unansweredAt.Equal(s.clock.Now()) { // runs that ask in one moment share an answer
		s.unansweredAt = time.Time{}
	}
	for len(s.plan) > 0 && !s.t.Failed() {
		if s.plan[0].at.After(s.clock.Now()) {
			if runs, err := s.store.Runs(ctx, moving); err != nil || len(runs) > 0 {
				return
			}
			s.clock.AdvanceTo(s.plan[0].at)
		}
		do := s.plan[0].do
		s.plan = s.plan[1:]
		do()
		s.check()
	}
}

// meanwhile lets the other broker make a step, and people act, during a call of this broker. The
// time until something is due passes, but never as much as this broker's lease.
func (s *simulation) meanwhile() {
	if s.second == nil || s.within || !s.chance(4) {
		return
	}
	const most = 45 * time.Second
	next, err := s.store.NextDue(ctx)
	s.must(err)
	if next.Sub(s.steppedAt) < most {
		s.clock.AdvanceTo(next)
	}
	if s.clock.Now().Sub(s.steppedAt) > most {
		return
	}
	s.aside(&s.second)
}

// aside lets people act and a broker make a step, in the middle of something else.
func (s *simulation) aside(by **chain.Engine) {
	at, seen, stepping, dies := s.steppedAt, s.seen, s.stepping, s.dies
	s.within, s.seen, s.dies = true, map[string]bool{}, false
	s.stepping = ""
	s.due()
	worked, err := (*by).Step(ctx)
	if worked {
		s.counts["steps of one broker within another's"]++
	}
	if errors.Is(err, chaintest.ErrKilled) {
		*by = s.broker()
	} else if err != nil && !errors.Is(err, chain.ErrLost) {
		s.wrong("%v", err)
	}
	s.check()
	s.within, s.steppedAt, s.seen, s.stepping, s.dies = false, at, seen, stepping, dies
}

// agents lets agents enrol whose machine is up with its deployed system.
func (s *simulation) agents() {
	now := s.clock.Now()
	if s.away || now.Sub(s.heard) < 5*time.Second {
		return
	}
	s.heard = now
	for _, m := range s.region.Machines() {
		if m.HostUp && m.Status == maassim.Deployed && !s.bystanders[m.SystemID] {
			s.book.Boot(m.UserData)
		}
	}
}

// caretaker renews the site's key when the site has been unreachable for a while.
func (s *simulation) caretaker() {
	holds, err := s.store.Holds(ctx, s.site.Name, s.clock.Now())
	s.must(err)
	for _, h := range holds {
		if h.Until.IsZero() && s.clock.Now().Sub(h.Since) > 30*time.Minute {
			s.credentials(s.region.RenewKeys("admin"))
		}
	}
	s.abortErases()
	if runs, err := s.store.Runs(ctx, moving); err != nil || len(runs) > 0 || len(s.plan) > 0 {
		s.later(time.Hour, s.caretaker)
	}
}

// abortErases is a person who aborts an endless erase: no run does so, because an erase may last
// for days.
func (s *simulation) abortErases() {
	for _, b := range s.boxes {
		m, _ := s.region.Machine(b.systemID)
		history := s.region.History(b.systemID)
		if m.Status != maassim.DiskErasing || s.clock.Now().Sub(history[len(history)-1].At) < 2*time.Hour {
			continue
		}
		s.say("somebody aborts the erase of machine %s, locked %v", b.systemID, m.Locked)
		if m.Locked {
			s.call("machines/" + b.systemID + "/?op=unlock")
		}
		s.call("machines/" + b.systemID + "/?op=abort")
	}
}

// call is an administrator's call to the region, past the broker.
func (s *simulation) call(at string) {
	req, err := http.NewRequest(http.MethodPost, maassim.URL+"/api/2.0/"+at, nil)
	s.must(err)
	key, now := strings.Split(s.region.APIKey(), ":"), s.clock.Now()
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", fmt.Sprintf(`OAuth oauth_consumer_key="%s", oauth_token="%s", oauth_signature_method="PLAINTEXT", oauth_signature="%%26%s", oauth_timestamp="%d", oauth_nonce="by hand %d", oauth_version="1.0"`,
		key[0], key[1], key[2], now.Unix(), now.UnixNano()))
	if _, err := s.region.RoundTripper().RoundTrip(req); err != nil {
		s.say("%s: %v", at, err)
	}
}
