package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/taskcatalog"
)

// starter is a systemd that only starts units.
type starter struct {
	host.Systemd
	sync.Mutex
	started []string
	polls   func() int
	hangs   string
	early   bool // each start came before the first poll
}

func (s *starter) Start(ctx context.Context, unit string) error {
	s.Lock()
	defer s.Unlock()
	s.started = append(s.started, unit)
	s.early = s.polls() == 0
	if unit == s.hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

// leave prepares a machine whose agent was killed while a scrub had stopped units.
func leave(l *lab, units ...string) *starter {
	p := l.start()
	l.nodeID(p)
	for _, unit := range units {
		if err := p.ledger.PutStopped(unit); err != nil {
			l.t.Fatal(err)
		}
	}
	p.kill()
	<-p.ended
	before := l.broker.Count("wait")
	s := &starter{polls: func() int { return l.broker.Count("wait") - before }}
	l.config.Systemd = s
	return s
}

func TestWhatAScrubHadStoppedRunsAgainBeforeAnyTask(t *testing.T) {
	inBubble(t, func(l *lab) {
		s := leave(l, "nvidia-dcgm.service", "exporter.service")
		p := l.start()
		l.until("it polls", func() bool { return s.polls() > 0 })
		if !slices.Equal(s.started, []string{"nvidia-dcgm.service", "exporter.service"}) || !s.early {
			t.Errorf("started %q, before the first poll: %t", s.started, s.early)
		}
		if left, err := p.ledger.StoppedUnits(); err != nil || len(left) > 0 {
			t.Errorf("%q are left (%v)", left, err)
		}
		p.quit()
		p = l.start()
		l.nodeID(p)
		if len(s.started) != 2 {
			t.Errorf("started once more: %q", s.started)
		}
	})
}

// A service that the put-back does not start stays stopped, and the report of the crash names it.
func TestTheReportOfACrashNamesWhatAScrubStoppedForGood(t *testing.T) {
	inBubble(t, func(l *lab) {
		scrub, _ := tasks.Lookup("node.gpu_scrub", 1)
		var first *process
		died := make(chan struct{})
		scrub.Do = func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			if err := errors.Join(r.Host.Stopped.PutStopped("dcgm.service"), r.Host.Stopped.PutUnnamed("tenant.service")); err != nil {
				t.Error(err)
			}
			close(died)
			first.kill()
			<-ctx.Done()
			return nil, taskcatalog.Report{}, ctx.Err()
		}
		l.handle("node.gpu_scrub@1", scrub)
		s := &starter{polls: func() int { return 0 }}
		l.config.Systemd, l.config.Capabilities = s, map[string]string{"gpu.vendor": "nvidia"}
		first = l.start(func(p *process) { first = p })
		q := l.broker.Enqueue(l.nodeID(first), "node.gpu_scrub", `{}`)
		<-died
		<-first.ended
		l.start()
		r := l.broker.Wait(q, time.Minute)
		if r.Outcome != taskcatalog.OutcomeInterrupted || !strings.Contains(r.Message, "stay stopped: tenant.service") || strings.Contains(r.Message, "dcgm.service") {
			t.Errorf("%s: %s", r.Outcome, r.Message)
		}
		if !slices.Equal(s.started, []string{"dcgm.service"}) {
			t.Errorf("started %q", s.started)
		}
	})
}

func TestAUnitThatHangsKeepsNoNodeFromItsBroker(t *testing.T) {
	inBubble(t, func(l *lab) {
		s := leave(l, "nvidia-dcgm.service")
		s.hangs = "nvidia-dcgm.service"
		begun := time.Now()
		p := l.start()
		l.until("it polls", func() bool { return s.polls() > 0 })
		// systemd must get a watchdog signal each minute, or it ends the agent.
		if took := time.Since(begun); took >= time.Minute {
			t.Errorf("the first poll came after %s", took)
		}
		if left, err := p.ledger.StoppedUnits(); err != nil || !slices.Equal(left, []string{"nvidia-dcgm.service"}) {
			t.Errorf("%q are left (%v); the next start tries again", left, err)
		}
		// The running agent tries again as well, but not during a task in the exclusive lane.
		s.Lock()
		s.hangs = ""
		s.Unlock()
		if !p.lanes.try(taskcatalog.LaneExclusive) {
			t.Fatal("the lane is taken")
		}
		time.Sleep(25 * time.Minute)
		if left, _ := p.ledger.StoppedUnits(); len(left) != 1 {
			t.Errorf("it was started under a task: %q are left", left)
		}
		p.lanes.leave(taskcatalog.LaneExclusive)
		l.until("it runs again", func() bool { left, err := p.ledger.StoppedUnits(); return err == nil && len(left) == 0 })
	})
}
