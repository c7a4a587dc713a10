package agent

import (
	"context"
	"net"
	"os"
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
	"github.com/hostler/hostler/taskcatalog"
)

// works checks that a node executes a task now.
func (l *lab) works(p *process) *agenttest.Task {
	l.t.Helper()
	q := l.broker.Enqueue(l.nodeID(p), "node.heartbeat_check", `{}`)
	if r := l.broker.Wait(q, 10*time.Minute); r.Outcome != taskcatalog.OutcomeSucceeded {
		l.t.Fatalf("the node does not work: %s %s", r.Code, r.Message)
	}
	return q
}

func TestABrokerThatIsAwayAtFirstBootIsWaitedFor(t *testing.T) {
	inBubble(t, func(l *lab) {
		var dials atomic.Int64
		dial := l.config.Dial
		l.config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return dial(ctx, network, addr)
		}
		l.broker.GoAway()
		p := l.start()
		time.Sleep(30 * time.Minute)
		if p.state.Member() != nil || dials.Load() < 25 || dials.Load() > 80 {
			t.Fatalf("after 30 minutes: %d tries", dials.Load())
		}
		l.broker.ComeBack()
		back := time.Now()
		l.works(p)
		if took := time.Since(back); took > 2*uplink.LongPause {
			t.Fatalf("it took %s to notice the broker", took)
		}
	})
}

func TestALostEnrolmentAnswerCostsNothing(t *testing.T) {
	inBubble(t, func(l *lab) {
		lost := 0
		l.broker.LoseAnswer = func(route string) bool {
			lost++
			return route == "enroll" && lost <= 3
		}
		p := l.start()
		l.works(p)
		if l.broker.Enrolled != 4 || p.state.Member().Epoch != 1 {
			t.Fatalf("enrolled %d times, epoch %d", l.broker.Enrolled, p.state.Member().Epoch)
		}
	})
}

func TestAFirstBootThatIsCutAfterFirstContactIsEnrolledAlready(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		l.works(p) // from here on the broker refuses the token
		p.quit()
		for range 2 {
			m, err := Enroll(l.t.Context(), l.config, identity.Provided("the command line", l.boot, l.config.File.TokenFile))
			if err != nil || m.NodeID != l.nodeID(p) || m.Epoch != 1 {
				t.Fatalf("%+v, %v", m, err)
			}
		}
		if l.broker.Enrolled != 1 {
			t.Errorf("enrolled %d times", l.broker.Enrolled)
		}
		if err := os.WriteFile(l.config.File.TokenFile, []byte(l.broker.Bootstrap().Token.Reveal()), 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := Enroll(l.t.Context(), l.config, identity.Provided("the command line", identity.Bootstrap{
			Broker: l.boot.Broker, CASHA256: l.boot.CASHA256,
		}, l.config.File.TokenFile)); err != nil || l.broker.Enrolled != 2 {
			t.Errorf("a new token enrols anew: %+v, %v", m, err)
		}
		l.works(l.start())
	})
}

func TestACertificateIsRenewedAtTwoThirdsOfItsLife(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		l.works(p)
		begun := time.Now()
		l.until("it was renewed", func() bool { return l.broker.Count("renew") > 0 })
		if at := time.Since(begun); at < 15*time.Hour || at > 18*time.Hour {
			t.Fatalf("renewed after %s of 24h", at)
		}
		time.Sleep(2 * 24 * time.Hour)
		l.works(p)
		l.broker.Lock()
		defer l.broker.Unlock()
		if n := len(l.broker.Renewals); n < 3 || n > 5 {
			t.Errorf("%d renewals in three days", n)
		}
		for _, late := range l.broker.Renewals {
			if late {
				t.Error("one of them was late")
			}
		}
	})
}

// The nodes of a fleet installed in one night do not renew in the same night for ever.
func TestRenewalsOfOneLifePart(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		l.works(p)
		issued := func() time.Time { return p.state.Member().Cert.Leaf.NotBefore }
		first := issued()
		life := p.state.Member().Cert.Leaf.NotAfter.Sub(first)
		var least, most time.Duration
		for range 8 {
			before := issued()
			for !issued().After(before) {
				time.Sleep(time.Minute)
			}
			took := issued().Sub(before)
			if took < life*6/10 || took > life*8/10 {
				t.Fatalf("a certificate of %v was renewed after %v", life, took)
			}
			if least == 0 || took < least {
				least = took
			}
			most = max(most, took)
		}
		if most-least < life/200 {
			t.Errorf("eight renewals came after %v to %v each; they are to differ by up to %v", least, most, life/20)
		}
	})
}

func TestThreeDaysOffTheNodeComesBackByItself(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		l.works(p)
		p.quit()
		time.Sleep(72 * time.Hour)
		p = l.start()
		l.works(p)
		if len(l.broker.Renewals) != 1 || !l.broker.Renewals[0] {
			t.Fatalf("renewals: %v, want one that was late", l.broker.Renewals)
		}
	})
}

func TestABrokerThreeDaysAwayFindsItsNodesAgain(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		l.works(p)
		l.broker.GoAway()
		time.Sleep(72 * time.Hour)
		l.broker.ComeBack()
		back := time.Now()
		l.works(p)
		if took := time.Since(back); took > 3*uplink.LongPause {
			t.Fatalf("it took %s", took)
		}
	})
}

func TestAClockThatIsAYearOffIsNamedAndNothingIsSent(t *testing.T) {
	year := 366 * 24 * time.Hour // the broker's certificate lasts 365 days
	for offset, said := range map[time.Duration]string{year: "8784h0m0s ahead", -year: "8784h0m0s behind"} {
		inBubble(t, func(l *lab) {
			l.clock.Store(int64(offset))
			p := l.start()
			l.until("the clock is named", func() bool {
				s, err := ReadStatus(l.config.StatusFile)
				return err == nil && s.Problem != nil && s.Problem.Code == "clock_wrong" && strings.Contains(s.Problem.Message, said)
			})
			if n := l.broker.Count("enroll"); n != 0 {
				t.Errorf("the token was sent %d times to a broker whose dates do not hold", n)
			}
			l.clock.Store(0) // as a time service does
			l.works(p)
		})
	}
}

func TestAClockThatIsWrongLaterOnIsNamedToo(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		l.works(p)
		l.broker.GoAway() // the next poll needs a new connection
		l.clock.Store(int64(2 * 365 * 24 * time.Hour))
		l.broker.ComeBack()
		l.until("the clock is named", func() bool {
			s, err := ReadStatus(l.config.StatusFile)
			return err == nil && s.Problem != nil && s.Problem.Code == "clock_wrong" && strings.Contains(s.Problem.Message, "17520h0m0s ahead")
		})
		l.clock.Store(0)
		l.works(p)
	})
}

func TestATokenThatExpiredAndWasExtendedEnrols(t *testing.T) {
	inBubble(t, func(l *lab) {
		expired := true
		l.broker.Before = refuseWhile("/enroll", &expired, 403, "token_expired")
		p := l.start()
		time.Sleep(3 * time.Hour)
		if s := p.seen(); s.Phase != PhaseEnrolling || s.Problem.Code != "token_expired" {
			t.Fatalf("status: %+v", s)
		}
		l.broker.Lock()
		expired = false
		l.broker.Unlock()
		back := time.Now()
		l.works(p)
		if took := time.Since(back); took > 2*uplink.MaxPause {
			t.Fatalf("it took %s to notice", took)
		}
	})
}

func TestADeniedNodeEnrolsAgainWithANewTokenAndANewKey(t *testing.T) {
	inBubble(t, func(l *lab) {
		block := make(chan struct{})
		l.handle("node.drain@1", tasks.Handler{Do: func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			<-block
			return drain(ctx, r)
		}})
		p := l.start()
		l.works(p)
		before := p.state.Member()
		open := l.broker.Enqueue(before.NodeID, "node.drain", `{}`)
		// The previous task may still be listed although the broker has its result. Were the node
		// denied now, this task would never be delivered in its own epoch.
		l.until("it runs", func() bool {
			running := p.seen().Running
			return len(running) == 1 && running[0].TaskID == open.ID
		})
		l.broker.Lock()
		l.broker.Denied[pki.Serial(before.Cert.Leaf)] = true
		l.broker.Unlock()
		l.until("it is refused", func() bool { return p.seen().Phase == PhaseRefused })
		close(block) // the task of the earlier epoch ends; its result is not reported

		again := l.broker.TokenFor(before.NodeID)
		if err := os.WriteFile(l.config.TokenFile, []byte(again.Token.Reveal()), 0o600); err != nil {
			t.Fatal(err)
		}
		l.until("it has enrolled again", func() bool { return p.state.Member().Epoch == 2 })
		if sameKey(p.state.Member().Key, before.Key) {
			t.Fatal("the new enrolment has the old key")
		}
		l.works(p)
		l.until("the old result is settled", func() bool { w, _ := p.ledger.Unreported(); return len(w) == 0 })
		if open.Results != 0 {
			t.Error("a result of an earlier epoch was sent")
		}
	})
}

func TestANewTrustBundleIsTakenAndTheRetiredKeyNot(t *testing.T) {
	inBubble(t, func(l *lab) {
		handler, _ := tasks.Lookup("node.trust_update", 1)
		l.handle("node.trust_update@1", handler)
		p := l.start()
		l.works(p)
		auth := l.broker.Auth
		retired, next := auth.Task, pkitest.NewSigner(t)
		bundle := *auth.Bundle
		bundle.Version, bundle.Keys = 2, nil
		for _, k := range auth.Bundle.Keys {
			if k.Use == pki.UseTask {
				k = auth.BundleKey(t, pki.UseTask, next)
			}
			bundle.Keys = append(bundle.Keys, k)
		}
		raw, err := pki.SignBundle(bundle, auth.Trust)
		if err != nil {
			t.Fatal(err)
		}
		params, _ := taskcatalog.Encode(taskcatalog.TrustUpdateParams{Bundle: string(raw)})
		q := l.broker.Enqueue(l.nodeID(p), "node.trust_update", string(params))
		if r := l.broker.Wait(q, time.Minute); r.Outcome != taskcatalog.OutcomeSucceeded || string(r.Result) != `{"version":2,"changed":true}` {
			t.Fatalf("%+v", r)
		}
		auth.Task = next
		l.works(p)
		auth.Task = retired
		q = l.broker.Enqueue(l.nodeID(p), "node.heartbeat_check", `{}`)
		if r := l.broker.Wait(q, time.Minute); r.Code != taskcatalog.CodeUnknownKey {
			t.Fatalf("a task by a retired key: %+v", r)
		}
		// The refusal holds across a restart.
		p.quit()
		p = l.start()
		auth.Task = next
		l.works(p)
	})
}

func TestTheReportIsSentAgainWhenTheBrokerAsks(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		l.works(p)
		asked := false
		l.broker.Lock()
		l.broker.Before = answerOnce("/tasks/wait", &asked, `{"report":true}`)
		l.broker.Unlock()
		l.until("it has renewed", func() bool { return l.broker.Count("renew") == 1 })
		l.works(p)
	})
}
