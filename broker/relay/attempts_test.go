package relay_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// atOnce sends the Hellos simultaneously, each over its own connection of the node, and returns the
// answers: a code, or "welcome".
func (s *site) atOnce(hellos ...frame.Hello) <-chan taskcatalog.Code {
	s.Helper()
	answers := make(chan taskcatalog.Code, len(hellos))
	var ready sync.WaitGroup
	ready.Add(len(hellos))
	for i, h := range hellos {
		c := s.dial(both[i%2], s.node)
		h.Version = frame.Version
		raw := must(frame.Append(nil, h))(s)
		go func() {
			ready.Done()
			ready.Wait()
			_, err := c.Write(raw)
			f := frame.Frame(nil)
			if err == nil {
				f, err = c.reader.Next()
			}
			switch f := f.(type) {
			case frame.Welcome:
				answers <- "welcome"
			case frame.Bye:
				if f.Code == "joins_too_many" && !f.Lasts {
					f.Code += ", and for good"
				}
				answers <- f.Code
			default:
				answers <- taskcatalog.Code(fmt.Sprintf("%+v, %v", f, err))
			}
		}()
	}
	return answers
}

func answer(t *testing.T, answers <-chan taskcatalog.Code) taskcatalog.Code {
	t.Helper()
	select {
	case code := <-answers:
		return code
	case <-time.After(patience):
		t.Fatal("no answer comes")
		return ""
	}
}

func counted(t *testing.T, codes <-chan taskcatalog.Code) map[taskcatalog.Code]int {
	count := map[taskcatalog.Code]int{}
	for range cap(codes) {
		count[answer(t, codes)]++
	}
	return count
}

// patient returns a relay that waits for a slow test.
func patient(c *relay.Config) { c.PerSource, c.HelloWithin = 100, patience }

// All sessions of a node reconnect at once after a restart of the broker: none of them is an
// attacker.
func TestANodesSessionsMayComeAllAtOnce(t *testing.T) {
	s := newSite(t, patient)
	var hellos []frame.Hello
	for i := range 64 {
		id := fmt.Sprintf("ts-all-%d", i)
		must(s.db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: id, NodeID: s.node.NodeID, NodeEpoch: 1}))(t)
		if err := s.relay.Open(ctx, id, recording.Header{Width: 80, Height: 24}); err != nil {
			t.Fatal(err)
		}
		hellos = append(hellos, frame.Hello{SessionID: id, Token: s.mint(id, s.node)})
	}
	if codes := counted(t, s.atOnce(hellos...)); codes["welcome"] != 64 {
		t.Errorf("%v", codes)
	}
	s.noAttack()
}

// Many simultaneous tries do not circumvent the bound on refused tries.
func TestTriesThatAreRefusedAtOnceAreBounded(t *testing.T) {
	s := newSite(t, patient)
	hellos := make([]frame.Hello, 64)
	for i := range hellos {
		hellos[i] = frame.Hello{SessionID: "ts-1", Token: "guessed"}
	}
	codes := counted(t, s.atOnce(hellos...))
	refused := codes["terminal_token_unknown"]
	if refused < 16 || refused > 19 || refused+codes["joins_too_many"] != 64 {
		t.Errorf("%v", codes)
	}
	s.audited("terminal_token_unknown")
	s.audited("joins_too_many")
}

// While the store hangs, tries wait and time out. They do not count as an attack, and their token
// stays valid.
func TestTriesThatAreNotLookedAtInTimeMayComeAgain(t *testing.T) {
	s := newSite(t, func(c *relay.Config) { c.PerSource, c.HelloWithin = 100, 3*time.Second })
	letGo := s.holdsTheStore()
	hellos := make([]frame.Hello, 8)
	for i := range hellos {
		hellos[i] = frame.Hello{SessionID: "ts-1", Token: s.token}
	}
	answers := s.atOnce(hellos...)
	for waited := 0; waited < 4; { // the others may still be looked at
		if answer(t, answers) == "joins_too_many" {
			waited++
		}
	}
	letGo()
	s.join("quic", s.token, frame.Hello{})
	s.noAttack()
}
