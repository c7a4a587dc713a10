//go:build e2e && e2e_all

package e2e

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// A session survives changes of its node: a new agent, a new address, and a network that blocks
// UDP.
func TestATerminalLastsWhileItsNodeChanges(t *testing.T) {
	s := enrolled(t)
	s.provision("a-1", "alice")
	s.part("ANewAgent", func(s *site) {
		t := s.shell()
		r := s.releases()
		r.build("9.0.0")
		got, res := r.update("9.0.0", 30*time.Second, func() { t.goesOn("meanwhile") })
		if got.Status != "succeeded" || res.Outcome != taskcatalog.UpdateConfirmed {
			s.t.Fatalf("%+v %+v", got, res)
		}
		r.runs("9.0.0")
		t.goesOn("updated")
		t.types("exit\r")
		t.ends(0)
		t.closed()
	})
	s.part("ANewAddress", func(s *site) {
		t := s.shell()
		s.root("systemd-run", "--collect", "--unit=move", "sh", "-c", moving)
		// Each line comes back: before, during and after.
		const old, other = "at=10.0.2.15=", "at=10.0.2.77="
		for _, until := range []string{old, other, old} {
			for n, at := 0, ""; at != until; n++ {
				t.goesOn("typed" + strconv.Itoa(n))
				t.types("echo at=$(hostname -I | tr ' ' '\\n' | grep -m1 ^10)=\r")
				at = t.shows(old, other, "at==")
			}
		}
		if strings.Contains(t.Text(), "hostler: ") {
			s.t.Errorf("there was a hiccup: %q", t.Text())
		}
		t.types("exit\r")
		t.ends(0)
		t.closed()
	})
	s.part("NoUDP", func(s *site) {
		t := s.shell()
		t.goesOn("overUDP")
		if strings.Contains(t.Text(), overTCP) {
			s.t.Fatalf("it is over TCP: %q", t.Text())
		}
		_, relay, err := net.SplitHostPort(s.RelayAddress())
		if err != nil {
			s.t.Fatal(err)
		}
		dev := strings.TrimSpace(s.root("sh", "-c", "ip -o -4 route get 10.0.2.2 | sed 's/.* dev \\([^ ]*\\) .*/\\1/'"))
		s.root("tc", "qdisc", "add", "dev", dev, "clsact")
		s.root("tc", "filter", "add", "dev", dev, "egress", "protocol", "ip", "u32", "match", "ip", "protocol", "17", "0xff", "match", "ip", "dport", relay, "0xffff", "action", "drop")
		t.goesOn("cut") // the typed text waits for another path
		if !strings.Contains(t.Text(), overTCP) {
			s.t.Errorf("%q", t.Text())
		}
		t.types("exit\r")
		t.ends(0)
		t.closed()
		t = s.shell() // and where UDP never was
		t.goesOn("fromTheBeginning")
		if !strings.Contains(t.Text(), overTCP) {
			s.t.Errorf("%q", t.Text())
		}
		t.types("exit\r")
		t.ends(0)
		t.closed()
	})
}

const overTCP = "the node is connected over TCP, as UDP does not get through"

// moving gives the node another address for a while. The current address is also the test's way in.
// The network's manager would restore the current address at once, so it is stopped.
const moving = `sleep 2; dev=$(ip -o -4 route get 10.0.2.2 | sed 's/.* dev \([^ ]*\) .*/\1/')
systemctl stop systemd-networkd.socket systemd-networkd.service
ip addr flush dev $dev scope global; ip addr add 10.0.2.77/24 dev $dev
sleep 20
ip addr add 10.0.2.15/24 dev $dev; ip addr del 10.0.2.77/24 dev $dev; ip route replace default via 10.0.2.2
systemctl start systemd-networkd.service`
