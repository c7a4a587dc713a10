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
