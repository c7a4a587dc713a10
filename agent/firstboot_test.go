package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

func TestTheTokenIsStruckOnceItWasUsedAndCloudInitHasEnded(t *testing.T) {
	inBubble(t, func(l *lab) {
		secret := l.boot.Token.Reveal()
		l.put(userData, "|"+secret+"\n")
		l.put("run/cloud-init/instance-data.json", "{}")
		p := l.start()
		l.nodeID(p)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !l.has(userData, secret) {
			t.Fatal("it is struck while cloud-init still runs")
		}
		l.put("run/cloud-init/result.json", "{}")
		time.Sleep(time.Minute)
		synctest.Wait()
		if l.has(userData, secret) {
			t.Fatal("it is not struck after the node has enrolled with it")
		}
		p.quit()
		l.put(userData, "|"+secret+"\n") // as cloud-init does at the next boot
		l.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if l.has(userData, secret) {
			t.Error("it is not struck after another boot")
		}
	})
}

func TestAnAgentThatMayOnlyLookStrikesNothing(t *testing.T) {
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
		last := func() map[string]string { // what the digest in each poll is of
			time.Sleep(time.Minute)
			synctest.Wait()
			return p.self.Load().report.Capabilities
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

func TestCloudInitIsTurnedOffOnceTheFirstBootIsThrough(t *testing.T) {
	const off = "etc/cloud/cloud-init.disabled"
	inBubble(t, func(l *lab) {
		l.put("etc/cloud/cloud.cfg", "")
		l.put("etc/hostler-bootstrap/bundle", "version 1\nlayers agent disks\n")
		l.put("etc/hostler-agent/enroll.token", l.boot.Token.Reveal())
		l.put("run/cloud-init/instance-data.json", "{}")
		l.put("var/lib/hostler-bootstrap/agent.deb", "package")
		p := l.start()
		l.nodeID(p)
		remove := func(name string) {
			if err := os.Remove(filepath.Join(l.config.Machine.Dir(), name)); err != nil {
				t.Fatal(err)
			}
		}
		// Each is still missing when the next has come.
		for _, step := range []struct {
			what string
			do   func()
		}{
			{"cloud-init's end", func() { l.put("run/cloud-init/result.json", "{}") }},
			{"a layer's end", func() { l.put("var/lib/hostler-bootstrap/layers/disks", "failed\nno disk\n") }},
			{"the enrolment's end", func() { l.put("var/lib/hostler-bootstrap/done", "") }},
			{"the token's", func() { remove("etc/hostler-agent/enroll.token") }},
			{"the package's", func() { remove("var/lib/hostler-bootstrap/agent.deb") }},
		} {
			time.Sleep(time.Hour)
			synctest.Wait()
			if l.has(off, "") || p.host.FirstBoot() {
				t.Fatalf("the first boot counts as through before %s", step.what)
			}
			step.do()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !l.has(off, "hostler-agent") || !p.host.FirstBoot() {
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
		if l.has("etc/cloud/cloud-init.disabled", "") || !p.host.FirstBoot() {
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
		if l.has("etc/cloud/cloud-init.disabled", "") || !p.host.FirstBoot() {
			t.Error("an agent with allow: probe turned cloud-init off, or lets a baseline wait for it")
		}
	})
}
