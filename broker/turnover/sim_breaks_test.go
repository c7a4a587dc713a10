//go:build !race

package turnover_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/test/maassim"
)

// listener is a test that only hears what is said.
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

// lies are records that say or do what is not so.
type lies struct {
	turnover.Nodes
	book       *turnovertest.Book
	enables    func(*turnovertest.Machine) // in place of what Enable asks for
	quarantine func(*turnovertest.Machine) // in place of that
	claims     func(c *certificate.Clean)  // what a certificate says beside the truth
	meets      bool                        // every certificate does
	deaf       bool                        // MAAS having the machine back is not noted
	open       bool                        // nobody is cut off
}

func (l *lies) Enable(ctx context.Context, id, runID, certificateID string, lifts turnover.Lifts) error {
	if l.enables == nil {
		return l.Nodes.Enable(ctx, id, runID, certificateID, lifts)
	}
	l.book.Change(id, l.enables)
	return nil
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

func in(m *turnovertest.Machine) { m.Status, m.TurnoverOwed, m.Users = broker.Active, false, nil }

// Each rule that is watched can be broken, and the simulation tells it.
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
		"is cancelled at disable_node": func(_ *simulation, l *lies) { l.quarantine = in },
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
