package store_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func aSite(name string) broker.Site {
	s := broker.NewSite("0000-" + name)
	s.Name, s.RegionCode, s.APIBaseURL = name, "eu-1", "https://maas."+name+":5443/MAAS"
	s.PXEIface, s.PXEVLANVID, s.NodePXEIface = "ens19", 46, "eno8303"
	return s
}

func newSite(t testing.TB, db *store.DB, name string) broker.Site {
	t.Helper()
	s := aSite(name)
	return must(db.CreateSite(ctx, admin, s, broker.NewProfile("p-"+name, s.ID, broker.DefaultProfile)))(t)
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if err == nil || broker.AsError(err).Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func lastAudit(t *testing.T, db *store.DB, action string) store.SealedEntry {
	t.Helper()
	rows := must(db.ListAudit(ctx, store.AuditFilter{Action: action, Newest: true, Limit: 1}))(t)
	if len(rows) == 0 {
		t.Fatalf("no audit row %s", action)
	}
	return rows[0]
}

func TestASiteKeepsItsIssuer(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		s, want := aSite("dc1"), broker.Issuer{Organisation: "Example", Contact: "trust@example.com", TrustURL: "https://example.com/trust.json"}
		s.Issuer = want
		must(db.CreateSite(ctx, admin, s, broker.NewProfile("p-dc1", s.ID, broker.DefaultProfile)))(t)
		if got := must(db.Site(ctx, "dc1"))(t); got.Issuer != want {
			t.Errorf("it is created with %+v", got.Issuer)
		}
		want.Organisation, want.TrustURL = "Another", ""
		must(db.UpdateSite(ctx, admin, "dc1", "sold", func(s *broker.Site) error { s.Issuer = want; return nil }))(t)
		if got := must(db.Site(ctx, "dc1"))(t); got.Issuer != want {
			t.Errorf("it is changed to %+v", got.Issuer)
		}
		if row := lastAudit(t, db, "site.update"); !strings.Contains(string(row.Before), `"Example"`) || !strings.Contains(string(row.After), `"Another"`) {
			t.Errorf("the audit log has %s, %s", row.Before, row.After)
		}
	})
}

func TestASiteComesWithItsDefaultProfile(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		made := newSite(t, db, "dc1")
		want := aSite("dc1")
		want.DefaultProfileID, want.DefaultProfile, want.CreatedAt, want.UpdatedAt = "p-dc1", "default", clock.Now(), clock.Now()
		for _, ref := range []string{"dc1", want.ID} {
			if got := must(db.Site(ctx, ref))(t); asJSON(got) != asJSON(want) || asJSON(made) != asJSON(want) {
				t.Errorf("%s is\n%s, want\n%s", ref, asJSON(got), asJSON(want))
			}
		}
		p := must(db.Profile(ctx, want.ID, ""))(t)
		if p.Name != "default" || asJSON(p.Policy) != asJSON(broker.DefaultPolicy()) {
			t.Errorf("%s", asJSON(p))
		}
		_, err := db.CreateSite(ctx, admin, aSite("dc1"), broker.NewProfile("p-2", "0000-dc1", "default"))
		if err == nil {
			t.Error("a second site of the name was kept")
		}
		second := aSite("dc1")
		second.ID = "another"
		_, err = db.CreateSite(ctx, admin, second, broker.NewProfile("p-3", "another", "default"))
		wantCode(t, err, "site_exists")
		bad := aSite("dc9")
		bad.APIBaseURL = "ftp://x"
		_, err = db.CreateSite(ctx, admin, bad, broker.NewProfile("p-9", bad.ID, "default"))
		wantCode(t, err, "site_invalid")
		newSite(t, db, "dc0")
		if all := must(db.Sites(ctx, nil))(t); len(all) != 2 || all[0].Name != "dc0" {
			t.Errorf("%v", all)
		}
		if some := must(db.Sites(ctx, []string{"dc1"}))(t); len(some) != 1 || some[0].Name != "dc1" {
			t.Errorf("%v", some)
		}
		_, err = db.Site(ctx, "dc9")
		wantCode(t, err, "site_not_found")
	})
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// A site's token is sent only to the address at which it was checked.
func TestASiteWithATokenStaysWhereItIs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		s := newSite(t, db, "dc1")
		move := func(s *broker.Site) error { s.APIBaseURL = "https://elsewhere/MAAS"; return nil }
		must(db.UpdateSite(ctx, admin, "dc1", "moved", move))(t) // no token yet
		clock.Advance(time.Hour)
		got := must(db.SetSiteCredentials(ctx, admin, s.ID, "first", store.Credentials{APIToken: true, Power: true, APIBaseURL: "https://new/MAAS", DeploySSHPublicKey: "ssh-ed25519 AAAA", DeploySSHKeyPath: "a"}))(t)
		if got.APIBaseURL != "https://new/MAAS" || !got.APITokenSetAt.Equal(clock.Now()) || !got.PowerSetAt.Equal(clock.Now()) || !got.DeployPasswordSetAt.IsZero() || got.DeploySSHPublicKey != "ssh-ed25519 AAAA" {
			t.Errorf("%s", asJSON(got))
		}
		_, err := db.UpdateSite(ctx, admin, "dc1", "", move)
		wantCode(t, err, "site_address_bound")
		if late := must(db.SetSiteCredentials(ctx, admin, s.ID, "", store.Credentials{DeploySSHPublicKey: "ssh-ed25519 BBBB", DeploySSHKeyPath: "b"}))(t); late.DeploySSHPublicKey != "ssh-ed25519 AAAA" || late.DeploySSHKeyPath != "a" {
			t.Errorf("a deploy key took the place of another: %+v", late)
		}
		got = must(db.SetSiteCredentials(ctx, admin, s.ID, "", store.Credentials{DeployPassword: true}))(t)
		if got.APIBaseURL != "https://new/MAAS" || got.DeployPasswordSetAt.IsZero() || got.DeploySSHPublicKey == "" {
			t.Errorf("what was not named changed: %s", asJSON(got))
		}
	})
}

func TestASiteChangesWholeOrNotAtAll(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		before := newSite(t, db, "dc1")
		for name, change := range map[string]func(*broker.Site) error{
			"site_invalid": func(s *broker.Site) error { s.PXEVLANVID = 5000; return nil },
			"x":            func(*broker.Site) error { return broker.Errorf(broker.Refused, "x", "x") },
			"profile_not_found": func(s *broker.Site) error {
				s.DefaultProfileID = "no-such"
				return nil
			},
		} {
			_, err := db.UpdateSite(ctx, admin, "dc1", "", change)
			wantCode(t, err, name)
		}
		_, err := db.UpdateSite(ctx, admin, "dc1", "", func(s *broker.Site) error { s.Name = "dc2"; return nil })
		wantCode(t, err, "site_invalid")
		if got := must(db.Site(ctx, "dc1"))(t); asJSON(got) != asJSON(before) {
			t.Errorf("%s", asJSON(got))
		}
		must(db.UpdateSite(ctx, admin, "dc1", "moved house", func(s *broker.Site) error {
			s.Status = broker.SiteDisabled
			s.CommissioningScripts = []broker.ScriptVersion{{Name: "50-burn-in", Version: "7"}}
			return nil
		}))(t)
		got := must(db.Site(ctx, "dc1"))(t)
		if got.Status != broker.SiteDisabled || len(got.CommissioningScripts) != 1 {
			t.Errorf("%s", asJSON(got))
		}
		e := lastAudit(t, db, "site.update")
		if e.Actor != admin.Name || e.Reason != "moved house" || !strings.Contains(string(e.Before), `"status":"active"`) || !strings.Contains(string(e.After), `"status":"disabled"`) {
			t.Errorf("%s", asJSON(e))
		}
	})
}

func TestADefaultProfileStaysActive(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		s := newSite(t, db, "dc1")
		disable := func(p *broker.Profile) error { p.Status = broker.SiteDisabled; return nil }
		_, err := db.UpdateProfile(ctx, admin, s.ID, "default", "", disable)
		wantCode(t, err, "profile_is_default")
		strict := broker.NewProfile("p-strict", s.ID, "strict")
		strict.Policy.MaxDeployRetryAttempts = 0
		must(db.CreateProfile(ctx, admin, strict))(t)
		again := strict
		again.ID = "p-other"
		_, err = db.CreateProfile(ctx, admin, again)
		wantCode(t, err, "profile_exists")
		toStrict := func(s *broker.Site) error { s.DefaultProfileID = "strict"; return nil }
		must(db.UpdateProfile(ctx, admin, s.ID, "strict", "", disable))(t)
		_, err = db.UpdateSite(ctx, admin, "dc1", "", toStrict)
		wantCode(t, err, "profile_disabled")
		must(db.UpdateProfile(ctx, admin, s.ID, "p-strict", "", func(p *broker.Profile) error { p.Status = broker.SiteActive; return nil }))(t)
		if got := must(db.UpdateSite(ctx, admin, "dc1", "", toStrict))(t); got.DefaultProfileID != "p-strict" {
			t.Errorf("%s", got.DefaultProfileID)
		}
		must(db.UpdateProfile(ctx, admin, s.ID, "default", "", disable))(t)
		if p := must(db.Profile(ctx, s.ID, ""))(t); p.Name != "strict" || p.Policy.MaxDeployRetryAttempts != 0 {
			t.Errorf("%s", asJSON(p))
		}
		other := newSite(t, db, "dc2")
		_, err = db.UpdateSite(ctx, admin, "dc2", "", toStrict)
		wantCode(t, err, "profile_not_found") // another site's
		_, err = db.Profile(ctx, other.ID, "p-strict")
		wantCode(t, err, "profile_not_found")
	})
}

func TestAChangedPolicyLeavesTheOneBeforeInTheAudit(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		s := newSite(t, db, "dc1")
		must(db.UpdateProfile(ctx, admin, s.ID, "default", "slow BMCs", func(p *broker.Profile) error {
			p.Policy.StageRetries["deploy_via_maas"] = 4
			p.Policy.CommissionTimeoutSeconds = 7200
			return nil
		}))(t)
		_, err := db.UpdateProfile(ctx, admin, s.ID, "default", "", func(p *broker.Profile) error { p.Policy.HardwareSyncInterval = "6h"; return nil })
		wantCode(t, err, "profile_invalid") // the health timeout is too short for this interval
		p := must(db.Profile(ctx, s.ID, "default"))(t)
		if p.Policy.StageRetries["deploy_via_maas"] != 4 || p.Policy.StageRetries["commission_node"] != 3 || p.Policy.CommissionTimeoutSeconds != 7200 {
			t.Errorf("%s", asJSON(p.Policy))
		}
		e := lastAudit(t, db, "site.profile.update")
		if !strings.Contains(string(e.Before), `"deploy_via_maas":2`) || !strings.Contains(string(e.After), `"deploy_via_maas":4`) {
			t.Errorf("before %s, after %s", e.Before, e.After)
		}
	})
}

func TestASKUIsKeptWhole(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		s := broker.NewSKU()
		s.ID, s.GPUVendor, s.GPUModel, s.GPUCount, s.GPUMemoryBytes = "mi300x.192g.8gpu", "amd", "MI300X", 8, 192<<30
		s.NICs, s.BootDisk.Pick, s.ScrubFloor.MinCoveragePercent = []string{"enp28s0np0"}, broker.PickSmallest, 98
		ecc := true
		s.GPUSettings.ECC = &ecc
		made := must(db.CreateSKU(ctx, admin, s))(t)
		if got := must(db.SKU(ctx, s.ID))(t); asJSON(got) != asJSON(made) || got.GPUMemoryBytes != 192<<30 || got.BootDisk.Pattern != broker.BootDiskPattern || !*got.GPUSettings.ECC {
			t.Errorf("%s", asJSON(got))
		}
		_, err := db.CreateSKU(ctx, admin, s)
		wantCode(t, err, "sku_exists")
		_, err = db.UpdateSKU(ctx, admin, s.ID, "", func(s *broker.SKU) error { s.GPUCount = 0; return nil })
		wantCode(t, err, "sku_invalid")
		must(db.UpdateSKU(ctx, admin, s.ID, "", func(s *broker.SKU) error { s.GPUCount = 4; return nil }))(t)
		if all := must(db.SKUs(ctx))(t); len(all) != 1 || all[0].GPUCount != 4 {
			t.Errorf("%s", asJSON(all))
		}
		_, err = db.SKU(ctx, "h100")
		wantCode(t, err, "sku_not_found")
	})
}

func TestASKUsOfferIsKeptWhole(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newSite(t, db, "dc1")
		s := broker.NewSKU()
		s.ID = "cpu.2s"
		must(db.CreateSKU(ctx, admin, s))(t)
		offer := broker.Offer{Shape: broker.BareMetal, AllowedCounts: []int{1, 2}, Sites: []string{"dc1"}, Images: []string{"ubuntu/noble"}}
		made := must(db.UpdateSKU(ctx, admin, s.ID, "", func(s *broker.SKU) error { s.Offer = offer; return nil }))(t)
		if got := must(db.SKU(ctx, s.ID))(t); asJSON(got) != asJSON(made) || asJSON(got.Offer) != asJSON(offer) {
			t.Errorf("%s", asJSON(got))
		}
		page := must(db.ListAudit(ctx, store.AuditFilter{Action: "sku.update", Limit: 1}))(t)
		if !strings.Contains(string(page[0].After), `"allowed_counts":[1,2]`) {
			t.Errorf("the audit log has %s", page[0].After)
		}
		_, err := db.UpdateSKU(ctx, admin, s.ID, "", func(s *broker.SKU) error { s.Offer.Sites = []string{"dc9"}; return nil })
		wantCode(t, err, "site_not_found")
		s.ID, s.Offer.Sites = "cpu.4s", []string{"dc9"}
		_, err = db.CreateSKU(ctx, admin, s)
		wantCode(t, err, "site_not_found")

		// A broker of the release before rewrites the column sku alone, and makes SKUs without an offer.
		ok(t, store.Exec(ctx, db, `UPDATE skus SET sku = '{"description":"from the release before"}'`))
		ok(t, store.Exec(ctx, db, `INSERT INTO skus (id, sku, created_at, updated_at) VALUES ('old', '{}', 1, 1)`))
		if got := must(db.SKU(ctx, "cpu.2s"))(t); asJSON(got.Offer) != asJSON(offer) || got.Description == "" {
			t.Errorf("%s", asJSON(got))
		}
		if got := must(db.SKU(ctx, "old"))(t); asJSON(got.Offer) != asJSON(broker.NewOffer()) {
			t.Errorf("%s", asJSON(got.Offer))
		}
	})
}

// Two sites of the same region would not see each other's locks.
func TestARegionIsOneSitesAtATime(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		first, other := newSite(t, db, "dc1"), newSite(t, db, "dc3")
		second := aSite("dc2")
		create := func(address string) error {
			second.APIBaseURL = address
			_, err := db.CreateSite(ctx, admin, second, broker.NewProfile("p-dc2", second.ID, broker.DefaultProfile))
			return err
		}
		for _, same := range []string{first.APIBaseURL, "https://MAAS.dc1:5443/MAAS//", "https://maas.dc1.:5443/MAAS", "http://maas.dc1:5443/MAAS"} {
			wantCode(t, create(same), "site_region_taken")
		}
		second.Status = broker.SiteDisabled
		ok(t, create(first.APIBaseURL))
		become := func(id string, status broker.SiteStatus, address string) error {
			_, err := db.UpdateSite(ctx, admin, id, "test", func(s *broker.Site) error {
				s.Status, s.APIBaseURL = status, address
				return nil
			})
			return err
		}
		wantCode(t, become(second.ID, broker.SiteActive, first.APIBaseURL), "site_region_taken")
		wantCode(t, become(other.ID, broker.SiteActive, first.APIBaseURL), "site_region_taken")
		_, err := db.SetSiteCredentials(ctx, admin, other.ID, "test", store.Credentials{APIToken: true, APIBaseURL: first.APIBaseURL})
		wantCode(t, err, "site_region_taken")
		if got := must(db.Site(ctx, "dc3"))(t); got.APIBaseURL != other.APIBaseURL {
			t.Errorf("dc3 is at %s", got.APIBaseURL)
		}

		run := chain.NewRun{Record: chain.Record{ID: "r-1", Kind: "k", Site: "dc1", Status: chain.FailedManual, Direction: chain.Forward, Stage: "s", Attempt: 1, State: []byte(`{}`)}}
		ok(t, db.Insert(ctx, []chain.NewRun{run}, nil))
		ok(t, become(first.ID, broker.SiteDisabled, first.APIBaseURL))
		wantCode(t, become(second.ID, broker.SiteActive, first.APIBaseURL), "site_region_taken") // a run of dc1 still has machines
		// The run may be resumed: its disabled site must not move to a region where another site is
		// active.
		_, err = db.SetSiteCredentials(ctx, admin, first.ID, "test", store.Credentials{APIToken: true, APIBaseURL: other.APIBaseURL})
		wantCode(t, err, "site_region_taken")
		wantCode(t, become(first.ID, broker.SiteDisabled, other.APIBaseURL), "site_region_taken")
		if got := must(db.Site(ctx, "dc1"))(t); got.APIBaseURL != first.APIBaseURL {
			t.Errorf("dc1 is at %s", got.APIBaseURL)
		}
		ok(t, become(second.ID, broker.SiteDisabled, other.APIBaseURL)) // dc2 is not in use
		ok(t, become(second.ID, broker.SiteDisabled, first.APIBaseURL))
		_, err = db.Act(ctx, chain.Order{ID: "r-1", Actor: chain.Actor{Name: "ada"}, Action: chain.Cancel}, func(_ time.Time, r chain.Record) (chain.Change, error) {
			r.Status = chain.Cancelled
			return chain.Change{Record: r}, nil
		})
		ok(t, err)
		ok(t, become(second.ID, broker.SiteActive, first.APIBaseURL))
		wantCode(t, become(first.ID, broker.SiteActive, first.APIBaseURL), "site_region_taken")
	})
}
