//go:build !race

package turnover_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

// listener is a test that only records its errors.
type listener struct {
	testing.TB
	heard  []string
	failed bool
}

func (l *listener) Helper() {}

func (l *listener) Failed() bool { return l.failed }

func (l *listener) Logf(string, ...any) {}

func (l *listener) Error(args ...any) { l.Errorf("%v", args) }

func (l *listener) Errorf(format string, args ...any) {
	l.failed = true
	l.heard = append(l.heard, fmt.Sprintf(format, args...))
}

// lies are records that report or do something untrue.
type lies struct {
	turnover.Nodes
	book       *turnovertest.Book
	enables    func(*turnovertest.Machine) // in place of Enable's conditions
	quarantine func(*turnovertest.Machine) // in place of Quarantine
	claims     func(c *certificate.Clean)  // false claims of a certificate
	meets      bool                        // every certificate meets the policy
	sees       func(*broker.Node)          // in place of a node's true state
	done       bool                        // a cancelled task has succeeded
	single     bool                        // no identity conflict is seen
	anywhere   bool                        // a node is taken in any status
	deaf       bool                        // MAAS having the machine back is not noted
	open       bool                        // nobody is cut off
}

func (l *lies) Node(ctx context.Context, id string) (broker.Node, error) {
	n, err := l.Nodes.Node(ctx, id)
	if l.sees != nil {
		l.sees(&n)
	}
	return n, err
}

func (l *lies) Request(ctx context.Context, t taskstage.Task) (broker.Task, error) {
	k, err := l.Nodes.Request(ctx, t)
	if l.done && k.Status == broker.TaskCanceled {
		k.Status, k.Verdict, k.Result = broker.TaskSucceeded, taskcatalog.VerdictClean, json.RawMessage(`{"drained":true}`)
	}
	return k, err
}

func (l *lies) IdentityConflict(ctx context.Context, id string) (time.Time, error) {
	if l.single {
		return time.Time{}, nil
	}
	return l.Nodes.IdentityConflict(ctx, id)
}

func (l *lies) Enable(ctx context.Context, id, runID, certificateID string, lifts turnover.Lifts) error {
	if l.single {
		lifts.Conflicts = l.book.Now()
	}
	if l.enables == nil {
		return l.Nodes.Enable(ctx, id, runID, certificateID, lifts)
	}
	l.book.Change(id, l.enables)
	return nil
}

func (l *lies) Disable(ctx context.Context, id, runID, reason string, from broker.NodeStatus, ends []string) ([]broker.Occupant, error) {
	if l.anywhere {
		from = ""
	}
	return l.Nodes.Disable(ctx, id, runID, reason, from, ends)
}

func (l *lies) Quarantine(ctx context.Context, id, reason string) error {
	if l.quarantine == nil {
		return l.Nodes.Quarantine(ctx, id, reason)
	}
	l.book.Change(id, l.quarantine)
	return nil
}

func (l *lies) Wiped(ctx context.Context, id, runID string) error {
	if l.deaf {
		return nil
	}
	return l.Nodes.Wiped(ctx, id, runID)
}

func (l *lies) CutOff(ctx context.Context, id, runID, reason string) error {
	if l.open {
		return nil
	}
	return l.Nodes.CutOff(ctx, id, runID, reason)
}

func (l *lies) Certify(ctx context.Context, c *certificate.Clean) (certificate.Verdict, error) {
	if l.claims != nil {
		l.claims(c)
	}
	v, err := l.Nodes.Certify(ctx, c)
	v.MeetsPolicy = v.MeetsPolicy || l.meets
	return v, err
}

// pausing pauses every node from the beginning, for a reconciler at work.
func pausing(s *simulation) {
	s.watching = true
	for _, b := range s.boxes {
		s.later(time.Second, func() { s.pause(b) })
	}
}

// takingBack has somebody take all machines, again and again, for a reconciler at work.
func takingBack(s *simulation) {
	s.watching = true
	for i := range time.Duration(6) {
		s.later((1+i)*30*time.Minute, s.takesBack)
	}
}

// vanished is a region that lists none of its machines.
type vanished struct{ s *simulation }

func (v vanished) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := watched(v).RoundTrip(req)
	switch id := v.s.aboutMachine(req); {
	case err != nil:
	case id != "":
		return answering(req, http.StatusNotFound, "Not Found"), nil
	case strings.HasSuffix(req.URL.Path, "/machines/"):
		return answering(req, http.StatusOK, `[{"system_id":"aaaaaa","status":4}]`), nil
	}
	return res, err
}

// freed are runs before each of which somebody takes the machine.
type freed struct {
	leavingRuns
}

func (f freed) Start(ctx context.Context, n broker.Node, id, reason string) (string, error) {
	f.s.byHand(f.s.box(n.ID), maassim.ReadyByHand)
	return f.leavingRuns.Start(ctx, n, id, reason)
}

func drained(n *broker.Node) {
	if n.Status == broker.Draining {
		n.Status = broker.Retired
	}
}

func in(m *turnovertest.Machine) { m.Status, m.TurnoverOwed, m.Users = broker.Active, false, nil }

// Each watched rule can be broken, and the simulation detects the breach.
func TestSimulationTellsWhatIsWrong(t *testing.T) {
	fresh := func(c *certificate.Clean) { c.Environment = certificate.FreshOS }
	for tells, with := range map[string]func(*simulation, *lies){
		"whose certificate does not hold": func(_ *simulation, l *lies) { l.meets, l.enables = true, in },
		"and no run of it has done that": func(s *simulation, _ *lies) {
			s.later(time.Hour, func() {
				for _, b := range s.boxes {
					s.book.Change(b.id, func(m *turnovertest.Machine) {
						if m.Status == broker.Quarantined {
							in(m)
						}
					})
				}
			})
		},
		"and a turnover is owed": func(_ *simulation, l *lies) {
			l.enables = func(m *turnovertest.Machine) { m.Status = broker.Active }
		},
		"which it was not from": func(s *simulation, _ *lies) {
			for _, b := range s.boxes {
				b.fault = append(b.fault, span{from: s.clock.Now()})
			}
			s.unmended = true
		},
		"is live": func(s *simulation, l *lies) {
			l.deaf = true
			s.later(time.Second, func() {
				for _, b := range s.boxes {
					s.silence(b, true)
				}
			})
		},
		"was let in on node": func(s *simulation, _ *lies) { s.book.InRun = nil },
		"is not cut off":     func(_ *simulation, l *lies) { l.open = true },
		"says fresh_os":      func(_ *simulation, l *lies) { l.claims = fresh },
		"which was deleted, is": func(s *simulation, _ *lies) {
			s.later(4*time.Hour, func() {
				for _, b := range s.boxes {
					s.book.Change(b.id, func(m *turnovertest.Machine) {
						if m.Status == broker.Deleted {
							m.Status = broker.Retired
						}
					})
				}
			})
		},
		"has, turnover owed": func(s *simulation, _ *lies) {
			takingBack(s)
			s.drifts.blind = true
		},
		"whose site is frozen": func(s *simulation, _ *lies) {
			takingBack(s)
			s.drifts.thawed = true
			s.must(s.store.PlaceHold(ctx, ada, chain.SiteHold{Site: s.site.Name, Kind: chain.Freeze, Reason: "storm"}))
		},
		"by what it has not seen": func(s *simulation, _ *lies) {
			takingBack(s)
			s.through = s.region.RoundTripper()
		},
		"by one observation": func(s *simulation, _ *lies) {
			takingBack(s)
			s.drifts.lies = func(p *reconcile.Policy) { p.ConfirmSeconds = -1 }
		},
		"and its machine is as it should be": func(s *simulation, _ *lies) {
			s.watching = true
			s.through = vanished{s}
		},
		"within an hour": func(s *simulation, _ *lies) {
			takingBack(s)
			s.drifts.lies = func(p *reconcile.Policy) { p.MaxSharePercent = 100 }
		},
		"leave the fleet at once": func(s *simulation, _ *lies) {
			pausing(s)
			s.drifts.lies = func(p *reconcile.Policy) { p.DecommissionsAtOnce = 100 }
		},
		", with [": func(s *simulation, _ *lies) {
			pausing(s)
			s.drifts.blind = true
		},
		"it was to be left alone for": func(s *simulation, _ *lies) {
			pausing(s)
			s.drifts.lies = func(p *reconcile.Policy) { p.RetiredGraceSeconds = 1 }
		},
		"which a person wants to stay": func(s *simulation, _ *lies) {
			pausing(s)
			s.drifts.deaf = true
			for _, b := range s.boxes {
				s.later(10*time.Minute, func() { s.resolve(b) })
			}
		},
		"leave, whose machine is": func(s *simulation, _ *lies) {
			pausing(s)
			s.leavers = freed{leavingRuns{s}}
		},
		"for drift, which is": func(s *simulation, l *lies) {
			pausing(s)
			l.sees = func(n *broker.Node) {
				if r := s.live(n.ID); r != nil && r.drift && !r.taken {
					s.book.Change(n.ID, func(m *turnovertest.Machine) { m.Status = broker.Quarantined })
				}
			}
			l.anywhere = true
		},
		"asks MAAS for more than to be read": func(s *simulation, _ *lies) {
			s.later(time.Hour, func() {
				req, err := http.NewRequest(http.MethodPost, maassim.URL+"/api/2.0/machines/"+s.boxes[0].systemID+"/?op=deploy", strings.NewReader(""))
				s.must(err)
				_, _ = watched{s}.RoundTrip(req)
			})
		},
		"and nobody has answered for it": func(s *simulation, l *lies) {
			l.single = true
			for _, b := range s.boxes {
				s.later(time.Hour, func() { s.doubled(b) })
			}
		},
		"and two have its identity since": func(s *simulation, _ *lies) {
			s.later(time.Hour, func() {
				for _, b := range s.boxes {
					if s.doubled(b); s.book.Machine(b.id).Status == broker.Quarantined {
						s.book.Change(b.id, in)
						b.was = broker.Active
					}
				}
			})
		},
		"is done, and its task":          func(_ *simulation, l *lies) { l.done = true },
		string(cleaning) + "), and node": func(_ *simulation, l *lies) { l.sees = drained },
		string(emptying) + "), and node": func(_ *simulation, l *lies) { l.quarantine = func(*turnovertest.Machine) {} },
		"is cancelled at disable_node":   func(_ *simulation, l *lies) { l.quarantine = in },
		"which nobody asked for": func(s *simulation, _ *lies) {
			s.later(time.Hour, func() {
				req, err := http.NewRequest(http.MethodPost, maassim.URL+"/api/2.0/machines/"+s.boxes[0].systemID+"/?op=power_off", strings.NewReader(""))
				s.must(err)
				s.stepping = ""
				_, _ = s.RoundTrip(req)
			})
		},
	} {
		t.Run(tells, func(t *testing.T) {
			t.Parallel()
			const seeds = 80
			for seed := range uint64(seeds) {
				l := &listener{TB: t}
				playSeed(l, seed, func(s *simulation) {
					lying := &lies{Nodes: s.book, book: s.book}
					s.nodes = lying
					with(s, lying)
				})
				for _, said := range l.heard {
					if strings.Contains(said, tells) {
						return
					}
				}
			}
			t.Errorf("in %d seeds nobody tells it", seeds)
		})
	}
}
