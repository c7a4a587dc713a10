//go:build e2e && e2e_all

package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// A session outlasts what its node goes through: a new agent, and a new address.
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
}

// moving gives the node another address for a while: the one that it has now is also the
// one by which a test gets in. What manages its network would put that back at once.
const moving = `sleep 2; dev=$(ip -o -4 route get 10.0.2.2 | sed 's/.* dev \([^ ]*\) .*/\1/')
systemctl stop systemd-networkd.socket systemd-networkd.service
ip addr flush dev $dev scope global; ip addr add 10.0.2.77/24 dev $dev
sleep 20
ip addr add 10.0.2.15/24 dev $dev; ip addr del 10.0.2.77/24 dev $dev; ip route replace default via 10.0.2.2
systemctl start systemd-networkd.service`
