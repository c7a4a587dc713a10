package agent

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/selfupdate"
)

// proving makes the next started agent a version in its proof. No watcher ends the proof.
func (l *lab) proving() {
	u := newUnits(l)
	u.watching = true
	store := u.open()
	if err := store.Change(func(st *selfupdate.State) error {
		st.Trial = &selfupdate.Trial{ID: "t-1", Step: selfupdate.Proving, From: "0.9.0", To: "1.0.0"}
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	l.config.Updates = &Updates{Store: store, Systemd: u, Running: "1.0.0", Invocation: "i1"}
}

// watchdogLimit is WatchdogSec= of the agent's unit.
const watchdogLimit = time.Minute

// systemd ends an agent whose loop stands still. During a version's proof it does so early, so that
// the watcher counts the restart.
func TestAnAgentThatStandsStillIsNotToldAsAlive(t *testing.T) {
	for _, c := range []struct {
		name        string
		prepare     func(*lab)
		least, most time.Duration // from the last turn until systemd ends the agent
	}{
		{"a version that is known to work", func(*lab) {}, 9 * time.Minute, 12 * time.Minute},
		{"a version that proves itself", (*lab).proving, 3 * time.Minute, selfupdate.DefaultProof - 30*time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				c.prepare(l)
				var alive, stood atomic.Int64
				l.config.Watchdog = watchdogLimit
				l.config.Notify = func(state string) {
					if state == "WATCHDOG=1" {
						alive.Store(time.Now().UnixNano())
					}
				}
				goOn := make(chan struct{})
				p := l.start(func(p *process) {
					p.at = func(boundary, _ string) {
						if boundary == "after accept" {
							stood.Store(time.Now().UnixNano())
							<-goOn
						}
					}
				})
				l.broker.Enqueue(l.nodeID(p), "node.heartbeat_check", `{}`)
				l.until("its loop stands still", func() bool { return stood.Load() > 0 })
				time.Sleep(time.Hour)
				if got := time.Duration(alive.Load()-stood.Load()) + watchdogLimit; got < c.least || got > c.most {
					t.Errorf("systemd would end it after %s", got)
				}
				close(goOn)
			})
		})
	}
}

// A broker that is unreachable, or asks for long pauses, is no reason to end a version in its
// proof.
func TestABrokerThatIsAwayLeavesAProofAlone(t *testing.T) {
	for name, retryAfter := range map[string]string{"it is away": "", "it wants to be left alone": "300"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				l.proving()
				var mu sync.Mutex
				var last time.Time
				var longest time.Duration
				l.config.Watchdog = watchdogLimit
				l.config.Notify = func(state string) {
					mu.Lock()
					defer mu.Unlock()
					if now := time.Now(); state == "WATCHDOG=1" {
						if !last.IsZero() {
							longest = max(longest, now.Sub(last))
						}
						last = now
					}
				}
				p := l.start()
				l.nodeID(p)
				l.broker.Lock()
				l.broker.Before = func(w http.ResponseWriter, r *http.Request) bool {
					if retryAfter == "" {
						<-r.Context().Done() // the broker sends no answer at all
						return true
					}
					w.Header().Set("Retry-After", retryAfter)
					w.WriteHeader(http.StatusServiceUnavailable)
					return true
				}
				l.broker.Unlock()
				time.Sleep(2 * time.Hour)
				mu.Lock()
				defer mu.Unlock()
				if longest == 0 || longest > watchdogLimit/2+time.Second {
					t.Errorf("systemd heard nothing for %s", longest)
				}
			})
		})
	}
}
