package agent

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/agenttest"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// withRotation gives the machine the real handler.
func (l *lab) withRotation() {
	h, ok := tasks.Lookup("node.rotate_identity", 1)
	if !ok {
		l.t.Fatal("there is no such handler")
	}
	l.handle("node.rotate_identity@1", h)
}

func (l *lab) rotate(p *process) *agenttest.Task {
	l.t.Helper()
	return l.broker.Enqueue(l.nodeID(p), "node.rotate_identity", `{}`)
}

// wasRotated checks a result against the node's present key.
func (l *lab) wasRotated(p *process, r wire.ResultRequest) {
	l.t.Helper()
	wantResult(l.t, r, taskcatalog.OutcomeSucceeded, "")
	var said taskcatalog.RotateIdentityResult
	if err := json.Unmarshal(r.Result, &said); err != nil {
		l.t.Fatal(err)
	}
	digest, _ := pki.PublicKeyDigest(p.state.Member().Key.Public())
	if "sha256:"+said.KeySHA256 != digest {
		l.t.Errorf("it says %s, and the node's key is %s", said.KeySHA256, digest)
	}
	if _, err := pki.VerifyEvidence([]byte(r.Evidence), p.state.Member().Key.Public()); err != nil {
		l.t.Errorf("its evidence is not by the new key: %v", err)
	}
	if keys, _ := filepath.Glob(filepath.Join(l.config.StateDir, "*.key")); len(keys) != 1 {
		l.t.Errorf("key files: %v", keys)
	}
}

func (l *lab) rotations() int {
	l.broker.Lock()
	defer l.broker.Unlock()
	return l.broker.Rotations
}

func TestANodeChangesItsKeyAndWorksOn(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.withRotation()
		p := l.start()
		l.works(p)
		before := p.state.Member()
		for n := 1; n <= 3; n++ {
			began := time.Now()
			l.wasRotated(p, l.broker.Wait(l.rotate(p), time.Minute))
			if got := l.rotations(); got != n {
				t.Fatalf("%d rotations, want %d", got, n)
			}
			l.works(p)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the node was away for %v", took)
			}
		}
		if m := p.state.Member(); m.NodeIdentity != before.NodeIdentity || l.broker.Enrolled != 1 {
			t.Errorf("%+v, enrolled %d times", m.NodeIdentity, l.broker.Enrolled)
		}
		time.Sleep(3 * 24 * time.Hour) // renewals go on
		p.quit()
		p = l.start()
		l.works(p)
		l.broker.Lock()
		defer l.broker.Unlock()
		if len(l.broker.Renewals) < 3 {
			t.Errorf("%d renewals in three days", len(l.broker.Renewals))
		}
	})
}

func TestARotationOutlastsLostAnswersAndABrokerThatGoesAway(t *testing.T) {
	for route, most := range map[string]int{"renew": 3, "progress": 3, "result": 3} {
		t.Run(route, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				l.withRotation()
				p := l.start()
				l.works(p)
				l.broker.Lock()
				lost := 0
				l.broker.LoseAnswer = func(r string) bool {
					if r != route || lost == most {
						return false
					}
					lost++
					return true
				}
				l.broker.Unlock()
				l.wasRotated(p, l.broker.Wait(l.rotate(p), 5*time.Minute))
				l.works(p)
			})
		})
	}
	t.Run("away", func(t *testing.T) {
		inBubble(t, func(l *lab) {
			l.withRotation()
			gone := false
			p := l.start(func(p *process) {
				p.at = func(boundary, _ string) {
					if boundary == "after the key change is requested" && !gone {
						gone = true
						l.broker.GoAway()
						time.AfterFunc(4*time.Minute, l.broker.ComeBack)
					}
				}
			})
			l.works(p)
			l.wasRotated(p, l.broker.Wait(l.rotate(p), 20*time.Minute))
			l.works(p)
		})
	})
}

// The process dies at each boundary. The next process knows its identity, and reports the task's
// outcome truthfully.
func TestARotationIsToldTrulyAfterACrash(t *testing.T) {
	for _, test := range []struct {
		boundary string
		outcome  taskcatalog.Outcome
		rotated  int
	}{
		{"after start", taskcatalog.OutcomeInterrupted, 0},
		{"before the key change is requested", taskcatalog.OutcomeSucceeded, 1},
		{"after the key change is requested", taskcatalog.OutcomeSucceeded, 1},
		{"before the new key is confirmed", taskcatalog.OutcomeSucceeded, 1},
		{"after the new key is confirmed", taskcatalog.OutcomeSucceeded, 1},
		{"before finish", taskcatalog.OutcomeSucceeded, 1},
		{"after finish", taskcatalog.OutcomeSucceeded, 1},
		{"after report", taskcatalog.OutcomeSucceeded, 1},
	} {
		t.Run(test.boundary, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				l.withRotation()
				var first *process
				died := make(chan struct{})
				var armed atomic.Bool
				var earlier sync.Map // tasks of before: one may still be about to be reported
				first = l.start(func(p *process) {
					first = p
					p.at = func(boundary, taskID string) {
						if !armed.Load() {
							earlier.Store(taskID, true)
						}
						if _, old := earlier.Load(taskID); old || boundary != test.boundary {
							return
						}
						select {
						case <-died:
							return
						default:
							close(died)
							first.kill()
							runtime.Goexit()
						}
					}
				})
				l.works(first)
				armed.Store(true)
				q := l.rotate(first)
				<-died
				second := l.start()
				r := l.broker.Wait(q, 5*time.Minute)
				l.nodeID(second) // the first process may have reported it
				if r.Outcome != test.outcome || l.rotations() != test.rotated {
					t.Fatalf("ended %s (%s), %d rotations, want %s, %d", r.Outcome, r.Message, l.rotations(), test.outcome, test.rotated)
				}
				if test.outcome == taskcatalog.OutcomeSucceeded {
					l.wasRotated(second, r)
				} else if !strings.Contains(r.Message, "keeps its old key") {
					t.Errorf("the message does not say which key it has: %s", r.Message)
				}
				l.works(second)
				if l.broker.Enrolled != 1 {
					t.Errorf("enrolled %d times", l.broker.Enrolled)
				}
				if second.state.Rotating() != "" {
					t.Error("a rotation is left under way")
				}
			})
		})
	}
}

// The machine was off so long that the task has expired, or even the certificates.
func TestAMachineThatWasOffInTheMiddleOfARotationComesBack(t *testing.T) {
	for _, boundary := range []string{"before the key change is requested", "after the key change is requested", "before the new key is confirmed", "after the new key is confirmed"} {
		for name, off := range map[string]time.Duration{"the lease": 2 * time.Minute, "the task": 3 * time.Hour, "the certificates": 3 * 24 * time.Hour} {
			t.Run(boundary+", past "+name, func(t *testing.T) {
				inBubble(t, func(l *lab) {
					l.withRotation()
					var first *process
					died := make(chan struct{})
					first = l.start(func(p *process) {
						first = p
						p.at = func(at, _ string) {
							if at != boundary {
								return
							}
							select {
							case <-died:
							default:
								close(died)
								first.kill()
								runtime.Goexit()
							}
						}
					})
					l.works(first)
					q := l.rotate(first)
					<-died
					time.Sleep(off)
					second := l.start()
					r := l.broker.Wait(q, 5*time.Minute)
					// Either way the broker and the node agree.
					if rotated := l.rotations() == 1; rotated != (r.Outcome == taskcatalog.OutcomeSucceeded) {
						t.Errorf("ended %s (%s), %d rotations", r.Outcome, r.Message, l.rotations())
					}
					l.works(second)
					if l.broker.Enrolled != 1 {
						t.Errorf("enrolled %d times", l.broker.Enrolled)
					}
				})
			})
		}
	}
}

func TestARotationThatTheBrokerEndsLeavesTheNodeAsItWas(t *testing.T) {
	refusing := func(code taskcatalog.Code, status int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/renew") {
				return false
			}
			raw, _ := taskcatalog.Encode(wire.Problem{Title: "no", Status: status, Detail: "cannot: no", Code: code})
			w.WriteHeader(status)
			_, _ = w.Write(raw)
			return true
		}
	}
	for _, test := range []struct {
		code   taskcatalog.Code
		status int
		after  taskcatalog.Code
	}{
		{"rotation_over", 409, "rotation_over"},
		{"rotation_key_known", 409, "rotation_key_known"},
		{"task_not_found", 404, "task_not_found"},
		{"malformed", 400, "malformed"}, // a broker from before rotation existed
		{"identity_conflict", 403, "identity_conflict"},
		{"lease_lost", 409, taskcatalog.CodeDeadlineExceeded}, // asked again until the deadline is over
		{"rotation_too_soon", 429, taskcatalog.CodeDeadlineExceeded},
	} {
		t.Run(string(test.code), func(t *testing.T) {
			inBubble(t, func(l *lab) {
				l.withRotation()
				p := l.start()
				l.works(p)
				before, _ := pki.PublicKeyDigest(p.state.Member().Key.Public())
				l.broker.Lock()
				l.broker.Before = refusing(test.code, test.status)
				l.broker.Unlock()
				r := l.broker.Wait(l.rotate(p), 15*time.Minute)
				wantResult(t, r, taskcatalog.OutcomeFailed, test.after)
				l.broker.Lock()
				l.broker.Before = nil
				l.broker.Unlock()
				l.works(p) // perhaps by a poll from before the task ended
				l.until("nothing is under way", func() bool { return p.state.Rotating() == "" })
				if now, _ := pki.PublicKeyDigest(p.state.Member().Key.Public()); now != before || p.state.Rotating() != "" || l.rotations() != 0 {
					t.Errorf("the key changed, or is about to: %q", p.state.Rotating())
				}
				if keys, _ := filepath.Glob(filepath.Join(l.config.StateDir, "*.key")); len(keys) != 1 {
					t.Errorf("key files: %v", keys)
				}
				l.wasRotated(p, l.broker.Wait(l.rotate(p), time.Minute)) // the next rotation succeeds
			})
		})
	}
}

func TestACancelInTheMiddleOfARotationLeavesOneKey(t *testing.T) {
	for _, boundary := range []string{"before the key change is requested", "after the key change is requested", "after the new key is confirmed"} {
		t.Run(boundary, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				l.withRotation()
				canceled := false
				p := l.start(func(p *process) {
					p.at = func(at, taskID string) {
						if at == boundary && !canceled {
							canceled = true
							l.broker.Cancel(l.broker.Find(taskID))
							time.Sleep(2 * time.Second) // the cancel arrives with the waiting poll
						}
					}
				})
				l.works(p)
				r := l.broker.Wait(l.rotate(p), 15*time.Minute)
				l.works(p)
				l.until("nothing is under way", func() bool { return p.state.Rotating() == "" })
				if r.Outcome == taskcatalog.OutcomeSucceeded != (l.rotations() == 1) {
					t.Errorf("ended %s, %d rotations", r.Outcome, l.rotations())
				}
			})
		})
	}
}

// The result of a failed task is reported before its unfinished rotation is settled: with this
// result the broker takes the new key back.
func TestAKeyIsNotChangedByATaskThatIsSaidToHaveFailed(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.withRotation()
		canceled := false
		p := l.start(func(p *process) {
			p.at = func(at, taskID string) {
				if at == "after the key change is requested" && !canceled {
					canceled = true
					l.broker.Cancel(l.broker.Find(taskID))
					time.Sleep(2 * time.Second) // the cancel arrives with the waiting poll
				}
			}
		})
		l.works(p)
		q := l.rotate(p)
		away := time.Now().Add(time.Minute)
		l.broker.Lock()
		l.broker.Before = func(w http.ResponseWriter, r *http.Request) bool {
			late := strings.HasSuffix(r.URL.Path, "/result") && time.Now().Before(away)
			if late {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return late
		}
		l.broker.Unlock()
		r := l.broker.Wait(q, 15*time.Minute)
		l.until("nothing is under way", func() bool { return p.state.Rotating() == "" })
		if !canceled || r.Outcome != taskcatalog.OutcomeCanceled || l.rotations() != 0 {
			t.Errorf("ended %s, %d rotations", r.Outcome, l.rotations())
		}
		l.works(p)
	})
}

// Evidence gathered before a rotation is reported after the rotation, and still verifies.
func TestAResultFromBeforeARotationIsSignedAnew(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.withRotation()
		p := l.start()
		l.works(p)
		l.broker.Lock()
		held := true
		l.broker.Before = func(w http.ResponseWriter, r *http.Request) bool {
			if held && strings.HasSuffix(r.URL.Path, "/result") {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			return false
		}
		l.broker.Unlock()
		early := l.broker.Enqueue(l.nodeID(p), "node.heartbeat_check", `{}`)
		l.until("it ran", func() bool { w, err := p.ledger.Unreported(); return err == nil && len(w) == 1 })
		q := l.rotate(p)
		l.until("the key is changed", func() bool { return l.rotations() == 1 })
		l.broker.Lock()
		held = false
		l.broker.Unlock()
		l.wasRotated(p, l.broker.Wait(q, 5*time.Minute))
		wantResult(t, l.broker.Wait(early, 5*time.Minute), taskcatalog.OutcomeSucceeded, "")
	})
}

// A refusal in the middle of a rotation is no reason to enrol anew.
func TestARotationUsesNoTokenThatLiesAround(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.withRotation()
		p := l.start()
		l.works(p)
		if err := os.WriteFile(l.config.File.TokenFile, []byte(l.broker.TokenFor(l.nodeID(p)).Token.Reveal()), 0o600); err != nil {
			t.Fatal(err)
		}
		l.broker.Lock()
		lost := 0
		l.broker.LoseAnswer = func(r string) bool { // the old certificate is denied, and the node does not know why
			lost++
			return r == "progress" && lost < 20
		}
		l.broker.Unlock()
		l.wasRotated(p, l.broker.Wait(l.rotate(p), 9*time.Minute))
		if l.broker.Enrolled != 1 {
			t.Errorf("enrolled %d times", l.broker.Enrolled)
		}
	})
}

func TestEachProcessPollsUnderAnIDOfItsOwn(t *testing.T) {
	inBubble(t, func(l *lab) {
		var mu sync.Mutex
		seen := map[string]bool{}
		ids := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(seen)
		}
		l.broker.Before = func(_ http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if strings.HasSuffix(r.URL.Path, "/tasks/wait") {
				seen[r.Header.Get(wire.HeaderInstance)] = true
			} else if r.Header.Get(wire.HeaderInstance) != "" {
				t.Errorf("%s names the instance", r.URL.Path)
			}
			return false
		}
		for n := 1; n <= 3; n++ {
			p := l.start()
			l.works(p)
			l.works(p)
			p.quit()
			if ids() != n {
				t.Errorf("%d ids after %d processes", ids(), n)
			}
		}
	})
}
