package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestTheStrongestOverrideHoldsAndIsSeenToBeUsed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		s := newSite(t, db, "dc1")
		put := func(id string, by broker.PowerSelector, value string) broker.PowerOverride {
			t.Helper()
			return must(db.PutPowerOverride(ctx, admin, broker.PowerOverride{ID: id, SiteID: s.ID, SelectorType: by, SelectorValue: value}, "old BMC"))(t)
		}
		put("o-host", broker.ByHostname, "C07U31")
		put("o-ip", broker.ByIPMIIP, "10.0.0.9")
		put("o-mac", broker.ByPXEMAC, "52-54-00-AA-BB-CC")
		uses := func(mac, ip, hostname, want string) {
			t.Helper()
			o, found, err := db.UsePowerOverride(ctx, s.ID, mac, ip, hostname)
			if err != nil || found != (want != "") || o.ID != want {
				t.Errorf("%s %s %s: %q %v %v, want %q", mac, ip, hostname, o.ID, found, err, want)
			}
		}
		uses("52:54:00:aa:bb:cc", "10.0.0.9", "c07u31", "o-mac")
		uses("", "10.0.0.9", "c07u31", "o-ip")
		uses("", "10.0.0.8", "c07u31", "o-host")
		uses("", "10.0.0.8", "c07u32", "")
		must(db.SetPowerOverrideStatus(ctx, admin, s.ID, "o-mac", broker.SiteDisabled, ""))(t)
		uses("52:54:00:aa:bb:cc", "10.0.0.9", "c07u31", "o-ip")

		again := put("o-new", broker.ByPXEMAC, "52:54:00:aa:bb:cc") // its credentials change, not its id
		if again.ID != "o-mac" || again.Status != broker.SiteActive || again.VaultPath != broker.PowerOverridePath(s.ID, "o-mac") {
			t.Errorf("%s", asJSON(again))
		}
		clock.Advance(91 * 24 * time.Hour)
		uses("", "10.0.0.9", "", "o-ip")
		all := must(db.PowerOverrides(ctx, s.ID))(t)
		if len(all) != 3 || all[0].ID != "o-mac" || !all[0].Unused(clock.Now()) || all[1].Unused(clock.Now()) {
			t.Errorf("%s", asJSON(all))
		}
		must(db.RemovePowerOverride(ctx, admin, s.ID, "o-mac", ""))(t)
		_, err := db.RemovePowerOverride(ctx, admin, s.ID, "o-mac", "")
		wantCode(t, err, "power_override_not_found")
		other := newSite(t, db, "dc2")
		_, err = db.RemovePowerOverride(ctx, admin, other.ID, "o-ip", "")
		wantCode(t, err, "power_override_not_found")
		if _, found, err := db.UsePowerOverride(ctx, other.ID, "", "10.0.0.9", ""); found || err != nil {
			t.Errorf("another site's override holds: %v", err)
		}
	})
}

func TestRoCEAssignmentsAreKeptWholeOrNotAtAll(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		s, other := newSite(t, db, "dc1"), newSite(t, db, "dc2")
		put := func(site broker.Site, rows ...string) (int, int, error) {
			var items []broker.RoCEAssignment
			for _, row := range rows {
				f := strings.Fields(row)
				items = append(items, broker.RoCEAssignment{ID: site.Name + "-" + f[0] + f[1], SiteID: site.ID, Hostname: f[0], Interface: f[1], IPv4CIDR: f[2]})
			}
			return db.PutRoCE(ctx, admin, site.ID, items, "cabling")
		}
		wants := func(created, updated int, rows ...string) {
			t.Helper()
			if c, u, err := put(s, rows...); err != nil || c != created || u != updated {
				t.Errorf("%v: %d created, %d updated, %v; want %d and %d", rows, c, u, err, created, updated)
			}
		}
		wants(3, 0, "c07u31 enp28s0np0 172.30.9.61/31", "c07u31 enp29s0np0 172.29.1.219/31", "c07u32 enp28s0np0 172.30.9.63/31")
		wants(0, 0, "c07u31 enp28s0np0 172.30.9.61/31")
		wants(1, 1, "C07U31 enp28s0np0 172.30.9.65/31", "c07u33 enp28s0np0 172.30.9.61/31") // the second takes the first's address

		_, _, err := put(s, "c07u40 enp28s0np0 172.30.9.70/31", "c07u41 enp28s0np0 172.30.9.63/31")
		wantCode(t, err, "roce_address_taken")
		_, _, err = put(s, "c07u40 enp28s0np0 172.30.9.70/31", "c07u41 enp28s0np0 172.30.9.70/31")
		wantCode(t, err, "roce_invalid")
		if _, _, err := put(other, "c07u31 enp28s0np0 172.30.9.63/31"); err != nil {
			t.Errorf("the address of another site: %v", err)
		}
		all := must(db.RoCEAssignments(ctx, s.ID, ""))(t)
		if len(all) != 4 {
			t.Fatalf("%s", asJSON(all))
		}
		mine := must(db.RoCEAssignments(ctx, s.ID, "c07u31"))(t)
		if len(mine) != 2 || mine[0].IPv4CIDR != "172.30.9.65/31" {
			t.Errorf("%s", asJSON(mine))
		}
		must(db.RemoveRoCE(ctx, admin, s.ID, mine[0].ID, ""))(t)
		_, err = db.RemoveRoCE(ctx, admin, s.ID, mine[0].ID, "")
		wantCode(t, err, "roce_not_found")
		e := lastAudit(t, db, "site.roce.set")
		if e.Subject != "site/dc2" || !strings.Contains(string(e.After), "172.30.9.63/31") {
			t.Errorf("%s", asJSON(e))
		}
	})
}
