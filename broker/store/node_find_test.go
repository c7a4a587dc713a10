package store_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestAnyNameFindsTheThing(t *testing.T) {
	const uuid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := madeByRun(t, db, "n-a", "gpu-1", "10.0.0.1", "AA:BB:CC:00:11:22", "SN-1")
		ok(t, db.SaveSeen(ctx, []store.MAASState{{NodeID: n.ID, Host: "192.0.2.7", IPs: []string{"192.0.2.7", "2001:db8::7"}}}))
		gone := must(db.CreateNode(ctx, admin, store.NewNode{ID: "n-gone", Hostname: "gpu-0", Site: "dc2", Bootstrap: "command"}))(t)
		must(db.Transition(ctx, admin, gone.ID, store.Change{To: broker.Deleted, By: broker.OwnerRemoval}))(t)
		tenanted := member(t, db, "gpu-3")
		task := must(letsIn(db, tenanted, "a-1", "acme", false))(t)
		for _, id := range []string{"GPU-" + uuid, "Disk-9"} {
			ok(t, store.Exec(ctx, db, `INSERT INTO node_devices (node_id, kind, id, serial, model, place, size, state, source, since, reason)
				VALUES ($1, 'disk', $2, '', 'm', '', 0, 'found', 'agent', 0, '')`, n.ID, id))
		}
		for word, want := range map[string][]string{
			"n-a":               {"node/n-a by id"},
			"GPU-1":             {"node/n-a by hostname"},
			"dc1/gpu-1":         {"node/n-a by hostname"},
			"dc2/gpu-1":         nil,
			"sysn-a":            {"node/n-a by maas_system_id"},
			"sn-1":              {"node/n-a by serial"},
			"aabb.cc00.1122":    {"node/n-a by pxe_mac"},
			"10.0.0.1":          {"node/n-a by ipmi_ip"},
			"192.0.2.7":         {"node/n-a by host"},
			"2001:DB8:0::7":     {"node/n-a by maas_ip"},
			"192.0.2":           nil,
			"gpu-0":             {"node/n-gone by hostname"},
			"disk-9":            {"device/Disk-9 by id"},
			uuid:                {"device/GPU-" + uuid + " by uuid"},
			"a-1":               {"allocation/a-1 by id"},
			"r-n-a":             {"run/r-n-a by id"},
			task.ID:             {"task/" + task.ID + " by id"},
			"%":                 nil,
			"' OR 1=1 --":       nil,
			"nothing-like-this": nil,
		} {
			found, more, err := db.Find(ctx, broker.ParseWord(word), nil)
			var got []string
			for _, f := range found {
				got = append(got, string(f.Kind)+"/"+f.ID+" by "+f.By)
			}
			if err != nil || more || !slices.Equal(got, want) {
				t.Errorf("%q finds %v, %v, %v; want %v", word, got, more, err, want)
			}
		}
		if found, _, err := db.Find(ctx, broker.ParseWord("sn-1"), []string{"dc2"}); err != nil || len(found) != 0 {
			t.Errorf("a token of another site finds %v, %v", found, err)
		}
	})
}

func TestWhatAWordFindsIsBounded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		for i := range store.FindAtOnce + 1 {
			id := fmt.Sprintf("n-%03d", i)
			must(db.CreateNode(ctx, admin, store.NewNode{ID: id, Hostname: "again", Bootstrap: "command"}))(t)
			must(db.Transition(ctx, admin, id, store.Change{To: broker.Deleted, By: broker.OwnerRemoval}))(t)
		}
		found, more, err := db.Find(ctx, broker.ParseWord("again"), nil)
		if err != nil || len(found) != store.FindAtOnce || !more {
			t.Errorf("%d things, more %v, %v", len(found), more, err)
		}
	})
}

// What belongs to tenants is found as well: by id, and by the names of organisations and projects,
// ended ones too. A token that is bound to sites finds what is of no site, and what is of its sites.
func TestAnyNameOfATenantFindsTheThing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := lacks(t, db, "gpu-1")
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 1)
		must(asks(db, "alc-1", "h100", 1))(t)
		must(reserves(db, "rsv-1", "", 1, 0))(t)
		newTerminal(t, db, "ts-1", n)
		att := must(attest(db, n, "d2"))(t).ID
		must(db.CreateWebhook(ctx, admin, broker.Webhook{ID: "wh-1", ProjectID: "p-1", URL: "https://a.example/planted"}))(t)
		must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-2", Name: "beta"}))(t)
		must(db.CreateProject(ctx, admin, broker.Project{ID: "prj-x", OrganisationID: "org-2", Name: "p-1"}))(t)
		must(db.EndProject(ctx, admin, "prj-x", "over"))(t)
		must(db.EndOrganisation(ctx, admin, "org-2", "over"))(t)
		clock.Advance(time.Second)
		for word, want := range map[string][]string{
			"alc-1":    {"project_allocation/alc-1 by id: p-1 requested -"},
			"rsv-1":    {"reservation/rsv-1 by id: p-2 in_force -"},
			"ts-1":     {"terminal/ts-1 by id: tenant opening gpu-1"},
			att:        {"attestation/" + att + " by id: d2 kept gpu-1"},
			"wh-1":     {"webhook/wh-1 by id: p-1 active -"},
			"org-1":    {"organisation/org-1 by id: acme live -"},
			"ACME":     {"organisation/org-1 by name: acme live -"},
			"beta":     {"organisation/org-2 by name: beta ended -"},
			"prj-x":    {"project/prj-x by id: beta/p-1 ended -"},
			"p-1":      {"project/p-1 by id: acme/p-1 live -", "project/prj-x by name: beta/p-1 ended -"},
			"Beta/P-1": {"project/prj-x by name: beta/p-1 ended -"},
			"beta/p-2": nil,
			"/p-1":     nil,
		} {
			found, _, err := db.Find(ctx, broker.ParseWord(word), nil)
			var got []string
			for _, f := range found {
				got = append(got, fmt.Sprintf("%s/%s by %s: %s %s %s", f.Kind, f.ID, f.By, f.What, f.Status, cmp.Or(f.Hostname, "-")))
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q finds %q, %v; want %q", word, got, err, want)
			}
			bound, _, err := db.Find(ctx, broker.ParseWord(word), []string{"dc2"})
			for _, f := range bound {
				if f.Site != "" {
					t.Errorf("a token of another site finds %+v", f)
				}
			}
			if ofSite := word == "alc-1" || word == "ts-1" || word == att; err != nil || len(bound) != len(want) && !ofSite || len(bound) > 0 && ofSite {
				t.Errorf("a token of another site finds %v by %q, %v", bound, word, err)
			}
		}
		clock.Advance(25 * time.Hour)
		if found, _, err := db.Find(ctx, broker.ParseWord("rsv-1"), []string{"dc1"}); err != nil || len(found) != 1 || found[0].Status != "over" {
			t.Errorf("after its period: %v, %v", found, err)
		}
	})
}

// Each look-up of a word uses an index, however long the tables are. The addresses that MAAS reported
// are the one exception.
func TestEachLookupOfAWordUsesAnIndex(t *testing.T) {
	url := storetest.URL(t, "sqlite")
	db := storetest.Reopen(t, url, nil)
	texts := store.Texts(db)
	for _, word := range []string{"n-1", "dc1/gpu-1", "10.0.0.1", "aabbcc001122", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"} {
		for _, sites := range [][]string{nil, {"dc1"}} {
			if _, _, err := db.Find(ctx, broker.ParseWord(word), sites); err != nil {
				t.Fatal(err)
			}
		}
	}
	raw := must(sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")))(t)
	defer func() { _ = raw.Close() }()
	kinds := map[string]bool{}
	for _, text := range texts() {
		if !strings.HasPrefix(text, "SELECT COALESCE(n.id") || strings.Contains(text, "last_maas_ips LIKE") {
			continue
		}
		kinds[regexp.MustCompile(`FROM (\w+)`).FindStringSubmatch(text)[1]] = true
		placeholders := slices.Compact(slices.Sorted(slices.Values(regexp.MustCompile(`\$\d+`).FindAllString(text, -1))))
		if plan := planOf(t, raw, text, make([]any, len(placeholders))...); strings.Contains(plan, "SCAN") {
			t.Errorf("%s\n\t%s", plan, text)
		}
	}
	if len(kinds) != 14 {
		t.Errorf("looked at %v", kinds)
	}
}
