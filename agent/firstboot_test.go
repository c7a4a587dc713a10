package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/inbox"
)

// put writes a file of the lab's machine.
func (l *lab) put(name, text string) {
	l.t.Helper()
	full := filepath.Join(l.config.Machine.Dir(), name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) has(name, text string) bool {
	raw, err := os.ReadFile(filepath.Join(l.config.Machine.Dir(), name))
	return err == nil && strings.Contains(string(raw), text)
}

const userData = "var/lib/cloud/instances/i-1/user-data.txt"

func TestTheTokenIsErasedOnceItWasUsedAndCloudInitHasEnded(t *testing.T) {
	inBubble(t, func(l *lab) {
		secret := l.boot.Token.Reveal()
		l.put(userData, "|"+secret+"\n")
		l.put("run/cloud-init/instance-data.json", "{}")
		p := l.start()
		l.nodeID(p)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !l.has(userData, secret) {
			t.Fatal("it is erased while cloud-init still runs")
		}
		l.put("run/cloud-init/result.json", "{}")
		time.Sleep(time.Minute)
		synctest.Wait()
		if l.has(userData, secret) {
			t.Fatal("it is not erased after the node has enrolled with it")
		}
		p.quit()
		l.put(userData, "|"+secret+"\n") // as cloud-init does at the next boot
		l.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if l.has(userData, secret) {
			t.Error("it is not erased after another boot")
		}
	})
}

func TestAnAgentThatMayOnlyLookErasesNothing(t *testing.T) {
	inBubble(t, func(l *lab) {
		secret := l.boot.Token.Reveal()
		l.put(userData, "|"+secret+"\n")
		l.config.Allow = inbox.AllowProbe
		l.nodeID(l.start())
		time.Sleep(time.Hour)
		synctest.Wait()
		if !l.has(userData, secret) {
			t.Error("an agent with allow: probe changed a file")
		}
	})
}

func TestTheBrokerLearnsHowTheLayersOfTheFirstBootEnd(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.put("etc/hostler-bootstrap/bundle", "version 1\nlayers site agent disks\n")
		l.put("var/lib/hostler-bootstrap/layers/site", "failed\nthe site's bundle ended with status 3\n")
		p := l.start()
		l.nodeID(p)
		if c := l.broker.Reports[0].Capabilities; c["first_boot.disks"] != "waiting" {
			t.Errorf("it enrolled with %v", c)
		}
		last := func() map[string]string { // the report behind the digest in each poll
			time.Sleep(time.Minute)
			synctest.Wait()
			return p.nodeReport.Load().report.Capabilities
		}
		if c := last(); c["first_boot.site"] != "failed: the site's bundle ended with status 3" || c["first_boot.disks"] != "waiting" {
			t.Errorf("%v", c)
		}
		l.put("var/lib/hostler-bootstrap/layers/site", "done\n\n")
		l.put("var/lib/hostler-bootstrap/layers/disks", "done\n\n")
		if c := last(); c["first_boot.site"] != "done" || c["first_boot.disks"] != "done" {
			t.Errorf("%v", c)
		}
	})
}

const cloudInitOff = "etc/cloud/cloud-init.disabled"

func (l *lab) remove(name string) {
	l.t.Helper()
	if err := os.Remove(filepath.Join(l.config.Machine.Dir(), name)); err != nil {
		l.t.Fatal(err)
	}
}

// deployed prepares a machine that has just enrolled in a first boot run by Hostler.
func (l *lab) deployed() {
	l.put("etc/cloud/cloud.cfg", "")
	l.put("etc/hostler-bootstrap/bundle", "version 1\nlayers agent disks\n")
	l.put("var/lib/hostler-bootstrap/layers/disks", "done\n\n")
	l.put("var/lib/hostler-bootstrap/done", "")
}

// settle advances the clock by an hour.
func settle() {
	time.Sleep(time.Hour)
	synctest.Wait()
}

func TestCloudInitIsTurnedOffOnceTheFirstBootIsThrough(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.put("etc/cloud/cloud.cfg", "")
		l.put("etc/hostler-bootstrap/bundle", "version 1\nlayers agent disks\n")
		l.put("run/cloud-init/instance-data.json", "{}")
		p := l.start()
		l.nodeID(p)
		// Each condition is still missing when the next is met.
		for _, step := range []struct {
			what string
			do   func()
		}{
			{"cloud-init's end", func() { l.put("run/cloud-init/result.json", "{}") }},
			{"a layer's end", func() { l.put("var/lib/hostler-bootstrap/layers/disks", "failed\nno disk\n") }},
			{"the enrolment's end", func() { l.put("var/lib/hostler-bootstrap/done", "") }},
		} {
			settle()
			if l.has(cloudInitOff, "") || p.host.FirstBoot() {
				t.Fatalf("the first boot counts as through before %s", step.what)
			}
			step.do()
		}
		settle()
		if !l.has(cloudInitOff, "hostler-agent") || !p.host.FirstBoot() {
			t.Error("cloud-init is still on")
		}
	})
}

// An interrupted enrolling unit enrols again with the token file, not with the text that replaces a
// erased token.
func TestTheTokenStaysUntilTheUnitThatEnrolsIsDone(t *testing.T) {
	const file = "etc/hostler-agent/enroll.token"
	inBubble(t, func(l *lab) {
		secret := l.boot.Token.Reveal()
		l.deployed()
		l.remove("var/lib/hostler-bootstrap/done")
		l.put(file, secret+"\n")
		l.config.File.TokenFile = filepath.Join(l.config.Machine.Dir(), file)
		for range 2 {
			p := l.start()
			id := l.nodeID(p)
			settle()
			p.quit()
			m, err := Enroll(l.t.Context(), l.config, identity.Provided("the command line", identity.Bootstrap{
				Broker: l.boot.Broker, CASHA256: l.boot.CASHA256,
			}, l.config.File.TokenFile))
			if err != nil || m.NodeID != id {
				t.Fatalf("cut before its end it cannot go on: %+v, %v", m, err)
			}
		}
		l.put("var/lib/hostler-bootstrap/done", "")
		l.start()
		settle()
		if l.has(file, secret) || !l.has(cloudInitOff, "") {
			t.Error("a token that was left after the enrolment's end is not erased, or keeps the first boot from ending")
		}
	})
}

// An operator may turn cloud-init on again. Turning it off once more would hide what a tenant had
// cloud-init execute.
func TestWhoeverTurnsCloudInitOnAgainFindsItOn(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.deployed()
		p := l.start()
		l.nodeID(p)
		settle()
		if !l.has(cloudInitOff, "") {
			t.Fatal("cloud-init is still on")
		}
		for range 2 {
			l.remove(cloudInitOff)
			settle()
			p.quit()
			p = l.start()
			settle()
			if l.has(cloudInitOff, "") || !p.host.FirstBoot() {
				t.Fatal("it was turned off again")
			}
			l.put(cloudInitOff, "")
		}
	})
}

// Nodes of an earlier agent have a baseline without the file, and may have a tenant.
func TestANodeThatAnEarlierAgentEnrolledIsNotChanged(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.deployed()
		l.config.Allow = inbox.AllowProbe
		p := l.start()
		l.nodeID(p)
		p.quit()
		if err := os.RemoveAll(filepath.Join(l.config.StateDir, "first-boot")); err != nil {
			t.Fatal(err)
		}
		l.config.Allow = inbox.AllowAll
		p = l.start()
		settle()
		if l.has(cloudInitOff, "") || !p.host.FirstBoot() {
			t.Error("cloud-init was turned off under its baseline")
		}
	})
}

// The agent is killed between any two steps: after turning off and before the record, or before
// both.
func TestAnAgentThatIsKilledTurnsCloudInitOffAtItsNextStart(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.deployed()
		l.remove("var/lib/hostler-bootstrap/done")
		p := l.start()
		l.nodeID(p)
		settle()
		p.kill()
		<-p.ended
		for _, written := range []string{"", "written before the end was noted"} {
			if written != "" {
				l.put(cloudInitOff, written)
			}
			l.put("var/lib/hostler-bootstrap/done", "")
			note := filepath.Join(l.config.StateDir, "first-boot")
			raw, err := os.ReadFile(note)
			if err != nil {
				t.Fatal(err)
			}
			p = l.start()
			settle()
			if !l.has(cloudInitOff, written) || !p.host.FirstBoot() {
				t.Errorf("%q: cloud-init is on, or the first boot goes on", written)
			}
			p.quit()
			if _, err := os.Stat(note); err == nil {
				t.Error("the end is not noted")
			}
			if err := os.WriteFile(note, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Turning off happens once per enrolment, because a new enrolment has a baseline of its own.
func TestANewEnrolmentTurnsCloudInitOffOnce(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.deployed()
		p := l.start()
		l.nodeID(p)
		settle()
		p.quit()
		l.remove(cloudInitOff)
		if _, err := Enroll(l.t.Context(), l.config, identity.Provided("the command line", l.broker.Bootstrap(), "")); err != nil {
			t.Fatal(err)
		}
		p = l.start()
		settle()
		if !l.has(cloudInitOff, "") || !p.host.FirstBoot() {
			t.Error("cloud-init is still on")
		}
	})
}

func TestCloudInitOfAMachineThatWeDidNotDeployIsLeftOn(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.put("etc/cloud/cloud.cfg", "")
		p := l.start()
		l.nodeID(p)
		time.Sleep(time.Hour)
		synctest.Wait()
		if l.has(cloudInitOff, "") || !p.host.FirstBoot() {
			t.Error("how somebody else's machine boots was changed")
		}
	})
}

func TestAnAgentThatMayOnlyLookLeavesCloudInitOn(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.put("etc/cloud/cloud.cfg", "")
		l.put("etc/hostler-bootstrap/bundle", "version 1\nlayers agent\n")
		l.put("var/lib/hostler-bootstrap/done", "")
		l.config.Allow = inbox.AllowProbe
		p := l.start()
		l.nodeID(p)
		time.Sleep(time.Hour)
		synctest.Wait()
		if l.has(cloudInitOff, "") || !p.host.FirstBoot() {
			t.Error("an agent with allow: probe turned cloud-init off, or lets a baseline wait for it")
		}
		p.quit()
		l.config.Allow = inbox.AllowAll
		l.start()
		settle()
		if l.has(cloudInitOff, "") {
			t.Error("cloud-init was turned off after a baseline that has it on")
		}
	})
}
