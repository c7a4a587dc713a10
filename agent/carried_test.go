package agent

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/agenttest"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/resolver-profiles/profilestest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// carries makes the broker's answers carry the shipped set as v1, and counts how often a node
// executes the carried task. Each execution takes longer than a poll, and longer than a progress
// interval.
func (l *lab) carries() (set *profiles.Set, runs *atomic.Int64) {
	l.t.Helper()
	set, problems := profiles.Parse(profilestest.Shipped()...)
	if problems != nil {
		l.t.Fatal(problems)
	}
	raw, err := set.Encode()
	if err != nil {
		l.t.Fatal(err)
	}
	l.broker.Carries = fmt.Sprintf(`{"version":"v1","digest":%q,"profiles":%s}`, set.Digest(), raw)
	runs = new(atomic.Int64)
	handler, _ := tasks.Lookup("node.resolver_config", 1)
	l.handle("node.resolver_config@1", tasks.Handler{Probe: handler.Probe, Do: func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
		runs.Add(1)
		if err := sleep(ctx, 3*progressTick); err != nil {
			return nil, taskcatalog.Report{}, err
		}
		return handler.Do(ctx, r)
	}})
	return set, runs
}

// carried is the carried task in the broker's queue.
func (l *lab) carried() *agenttest.Task {
	l.t.Helper()
	var q *agenttest.Task
	l.until("the task is queued", func() bool { q = l.broker.Find("t-1"); return q != nil })
	return q
}

func TestTheCarriedSetIsInForceBeforeTheFirstPoll(t *testing.T) {
	inBubble(t, func(l *lab) {
		set, runs := l.carries()
		polled, results := "", 0
		p := l.start(func(p *process) {
			p.at = func(boundary, _ string) {
				if boundary == "after finish" {
					polled, results = fmt.Sprint(l.broker.Count("wait")), l.broker.Count("result")
				}
			}
		})
		q := l.carried()
		r := l.broker.Wait(q, time.Minute)
		if polled != "0" || results != 0 {
			t.Errorf("when it had ended, the node had polled %q times and reported %d results", polled, results)
		}
		if r.Outcome != taskcatalog.OutcomeSucceeded || r.Attempt != 1 || p.host.Profiles.InForce().Digest() != set.Digest() {
			t.Fatalf("%+v, in force: %s", r, p.host.Profiles.InForce().Version)
		}
		l.works(p)
		// The result answers the delivery: the task ran once and its result was sent once.
		if runs.Load() != 1 || q.Attempt != 1 || q.Results != 1 || l.broker.Count("progress") != 0 {
			t.Errorf("%d runs, %d attempts, %d results, %d progress", runs.Load(), q.Attempt, q.Results, l.broker.Count("progress"))
		}
		l.broker.Forget(q)
		if r := l.broker.Wait(q, time.Hour); r.Outcome == "" || runs.Load() != 1 {
			t.Errorf("delivered again: %s, %d runs", r.Outcome, runs.Load())
		}
	})
}

// A hanging carried task keeps the node from its polls for a minute and no longer.
func TestACarriedTaskThatHangsDoesNotHoldUpTheNode(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.carries()
		done := make(chan struct{})
		l.handle("node.resolver_config@1", do(func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			<-done
			return nil, taskcatalog.Report{}, errors.New("it took too long")
		}))
		begun := time.Now()
		p := l.start()
		l.works(p)
		if took := time.Since(begun); took < uplink.LongPause || took > 2*uplink.LongPause {
			t.Errorf("the node worked after %s", took)
		}
		close(done)
		wantResult(t, l.broker.Wait(l.carried(), time.Minute), taskcatalog.OutcomeFailed, taskcatalog.CodeHandlerFailed)
	})
}

func TestALostAnswerCarriesTheSameTaskAgain(t *testing.T) {
	inBubble(t, func(l *lab) {
		set, runs := l.carries()
		lost := 0
		l.broker.LoseAnswer = func(route string) bool {
			lost++
			return route == "enroll" && lost <= 3
		}
		p := l.start()
		q := l.carried()
		if r := l.broker.Wait(q, time.Hour); r.Outcome != taskcatalog.OutcomeSucceeded {
			t.Fatalf("%+v", r)
		}
		l.works(p)
		if l.broker.Enrolled != 4 || runs.Load() != 1 || p.host.Profiles.InForce().Digest() != set.Digest() {
			t.Errorf("enrolled %d times, ran %d times, %s in force", l.broker.Enrolled, runs.Load(), p.host.Profiles.InForce().Version)
		}
	})
}

// hostler-agent enroll is a separate process. A first boot runs it.
func TestTheAgentTakesWhatAnEnrolmentByHandWasCarried(t *testing.T) {
	inBubble(t, func(l *lab) {
		set, runs := l.carries()
		if _, err := Enroll(l.t.Context(), l.config, identity.Provided("the command line", l.boot, "")); err != nil {
			t.Fatal(err)
		}
		if runs.Load() != 0 || l.broker.Count("wait") != 0 {
			t.Fatal("it did more than to enrol")
		}
		var polls atomic.Int64
		p := l.start(func(p *process) {
			p.at = func(boundary, _ string) {
				if boundary == "after finish" && p.state.Carried() == nil {
					polls.CompareAndSwap(0, 1+int64(l.broker.Count("wait")))
				}
			}
		})
		if r := l.broker.Wait(l.carried(), time.Minute); r.Outcome != taskcatalog.OutcomeSucceeded || p.host.Profiles.InForce().Digest() != set.Digest() {
			t.Errorf("%+v, in force: %s", r, p.host.Profiles.InForce().Version)
		}
		if polls.Load() != 1 {
			t.Errorf("it had ended after %d polls", polls.Load()-1)
		}
		p.quit()
		l.works(l.start())
		if runs.Load() != 1 || l.broker.Enrolled != 1 {
			t.Errorf("after a restart: %d runs, enrolled %d times", runs.Load(), l.broker.Enrolled)
		}
	})
}

// An attacker who can change only the answer gets no task executed and keeps the node from nothing:
// the set arrives with the first poll.
func TestAForgedCarriedTaskIsRefusedAndTheNodeEnrols(t *testing.T) {
	for name, test := range map[string]struct {
		code  taskcatalog.Code // "": no refusal can be reported
		as    string           // the task id in the answer; "": the true id
		forge func(t *testing.T, l *lab, f *forgery)
	}{
		"signed by a stranger":    {code: taskcatalog.CodeUnknownKey, forge: func(t *testing.T, _ *lab, f *forgery) { f.by = pkitest.NewSigner(t) }},
		"signed by the trust key": {code: taskcatalog.CodeUnknownKey, forge: func(_ *testing.T, l *lab, f *forgery) { f.by = l.broker.Auth.Trust }},
		"signed as evidence":      {code: taskcatalog.CodeWrongPayloadType, forge: func(_ *testing.T, _ *lab, f *forgery) { f.kind = pki.PayloadEvidence }},
		"another set under the signature": {code: taskcatalog.CodeBadSignature, forge: func(t *testing.T, _ *lab, f *forgery) {
			other := f.Task
			other.Params = json.RawMessage(`{"action":"rollback"}`)
			payload, err := taskcatalog.Encode(other)
			if err != nil {
				t.Fatal(err)
			}
			f.raw = swapped(t, "payload", func(string) string { return base64.StdEncoding.EncodeToString(payload) })
		}},
		"another node's":      {code: taskcatalog.CodeWrongNode, forge: func(_ *testing.T, _ *lab, f *forgery) { f.NodeID = "n-aaaaaaaaaaaaaaaa" }},
		"of an earlier epoch": {code: taskcatalog.CodeWrongEpoch, forge: func(_ *testing.T, _ *lab, f *forgery) { f.NodeEpoch-- }},
		"of last week": {code: taskcatalog.CodeTaskExpired, forge: func(_ *testing.T, _ *lab, f *forgery) {
			f.IssuedAt, f.NotAfter = f.IssuedAt.AddDate(0, 0, -7), f.NotAfter.AddDate(0, 0, -7)
		}},
		"under another task's id":  {code: taskcatalog.CodeReplayed, as: "t-77"},
		"under an id that is none": {code: "", as: ".."},
		"a script":                 {code: taskcatalog.CodeMalformed, forge: func(_ *testing.T, _ *lab, f *forgery) { f.raw = func(string) string { return "#!/bin/sh\nid" } }},
		"too large": {code: taskcatalog.CodeTooLarge, forge: func(_ *testing.T, _ *lab, f *forgery) {
			f.raw = func(signed string) string { return signed + strings.Repeat(" ", pki.MaxEnvelope) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				set, runs := l.carries()
				l.broker.Forge = func(c *wire.CarriedTask, q *agenttest.Task) {
					f := &forgery{Task: q.Payload, kind: pki.PayloadTask, by: l.broker.Auth.Task}
					if test.forge != nil {
						test.forge(t, l, f)
						c.Envelope = f.envelope(t)
					}
					c.TaskID = cmp.Or(test.as, c.TaskID)
				}
				var before atomic.Int64 // polls before the first task was accepted
				before.Store(-1)
				p := l.start(func(p *process) {
					p.at = func(boundary, _ string) {
						if boundary == "before accept" {
							before.CompareAndSwap(-1, int64(l.broker.Count("wait")))
						}
					}
				})
				q := l.carried()
				if r := l.broker.Wait(q, time.Hour); r.Outcome != taskcatalog.OutcomeSucceeded {
					t.Fatalf("the delivery ended %s %s", r.Outcome, r.Message)
				}
				if before.Load() < 1 {
					t.Errorf("a task was accepted before the first poll (%d)", before.Load())
				}
				if runs.Load() != 1 || p.host.Profiles.InForce().Digest() != set.Digest() {
					t.Errorf("%d runs, %s in force", runs.Load(), p.host.Profiles.InForce().Version)
				}
				l.works(p)
				l.until("nothing is left to be told", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.refusals) == 0 })
				l.broker.Lock()
				defer l.broker.Unlock()
				if early := l.broker.Early; test.code == "" && len(early) != 0 || test.code != "" && (len(early) != 1 || early[0].Code != test.code) {
					t.Errorf("the broker heard of %+v, want one refusal with %q", early, test.code)
				}
			})
		})
	}
}

// After a kill at any boundary the ordinary delivery does the rest, and no task runs twice.
func TestKilledAtAnyBoundaryACarriedTaskEndsOnce(t *testing.T) {
	for _, test := range []struct {
		boundary string
		outcome  taskcatalog.Outcome
		runs     int64
	}{
		{"before accept", taskcatalog.OutcomeSucceeded, 1},
		{"after accept", taskcatalog.OutcomeSucceeded, 1},
		{"after start", taskcatalog.OutcomeInterrupted, 0},
		{"before finish", taskcatalog.OutcomeInterrupted, 1},
		{"after finish", taskcatalog.OutcomeSucceeded, 1},
		{"after report", taskcatalog.OutcomeSucceeded, 1},
	} {
		t.Run(test.boundary, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				_, runs := l.carries()
				started, died := make(chan struct{}), make(chan struct{})
				l.start(func(p *process) {
					p.at = func(boundary, _ string) {
						if boundary != test.boundary {
							return
						}
						<-started
						select {
						case <-died:
						default:
							close(died)
							p.kill()
							runtime.Goexit()
						}
					}
				})
				close(started)
				<-died
				p := l.start()
				q := l.carried()
				r := l.broker.Wait(q, time.Hour)
				if r.Outcome != test.outcome || runs.Load() != test.runs || l.broker.Enrolled != 1 {
					t.Errorf("ended %s after %d runs, enrolled %d times; want %s after %d", r.Outcome, runs.Load(), l.broker.Enrolled, test.outcome, test.runs)
				}
				l.works(p)
			})
		})
	}
}

// If the broker loses a carried task and never delivers the task, the node drops it after a while.
func TestACarriedTaskThatIsNeverDeliveredIsForgotten(t *testing.T) {
	inBubble(t, func(l *lab) {
		_, runs := l.carries()
		l.broker.Forge = func(c *wire.CarriedTask, q *agenttest.Task) {
			f := &forgery{Task: q.Payload, kind: pki.PayloadTask, by: l.broker.Auth.Task}
			f.TaskID = "t-77"
			c.TaskID, c.Envelope = f.TaskID, f.envelope(t)
		}
		p := l.start()
		l.works(p)
		if e, known, err := p.ledger.Get("t-77"); err != nil || !known || e.Reported || runs.Load() != 2 {
			t.Errorf("it is %+v, %v, %v; %d tasks ran, want both", e, known, err, runs.Load())
		}
		l.until("nothing waits", func() bool { w, err := p.ledger.Unreported(); return err == nil && len(w) == 0 })
		if n := l.broker.Count("result"); n != 2 {
			t.Errorf("%d results were sent, want those of the two tasks that were delivered", n)
		}
	})
}

// A node that was refused by the broker enrols like any other.
func TestANodeThatEnrolsAgainTakesTheCarriedTask(t *testing.T) {
	inBubble(t, func(l *lab) {
		_, runs := l.carries()
		p := l.start()
		l.works(p)
		before := p.state.Member()
		l.broker.Lock()
		l.broker.Denied[pki.Serial(before.Cert.Leaf)] = true
		l.broker.Unlock()
		l.until("it is refused", func() bool { return p.seen().Phase == PhaseRefused })
		again := l.broker.TokenFor(before.NodeID)
		if err := os.WriteFile(l.config.TokenFile, []byte(again.Token.Reveal()), 0o600); err != nil {
			t.Fatal(err)
		}
		l.until("it has taken the set again", func() bool { return runs.Load() == 2 })
		l.works(p)
		l.broker.Lock()
		defer l.broker.Unlock()
		if p.state.Member().Epoch != 2 || len(l.broker.Early) != 0 {
			t.Errorf("epoch %d, %+v", p.state.Member().Epoch, l.broker.Early)
		}
	})
}
