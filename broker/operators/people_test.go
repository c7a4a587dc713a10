package operators_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operators"
	"github.com/hostler/hostler/broker/operators/oidc"
	"github.com/hostler/hostler/broker/operators/oidc/oidctest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/tenancy"
)

func peopleOf(t *testing.T, fake *oidctest.Provider, now func() time.Time, rules ...operators.Rule) *operators.People {
	t.Helper()
	p, err := operators.NewPeople(operators.PeopleConfig{
		Config: oidc.Config{Issuer: fake.Issuer, ClientID: oidctest.ClientID, CAFile: fake.CAFile}, Rules: rules,
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheFirstRuleThatMatchesGivesARole(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		ada := broker.Actor{Name: "ada", Role: broker.RolePlatformAdmin}
		tenants := tenancy.New(db)
		acme, err := tenants.CreateOrganisation(t.Context(), ada, "acme")
		if err != nil {
			t.Fatal(err)
		}
		lab, err := tenants.CreateProject(t.Context(), ada, acme.ID, "lab")
		if err != nil {
			t.Fatal(err)
		}
		fake := oidctest.Start(t, db.Now)
		d := operators.New(db, db.Now, rand.Reader)
		d.Admit(peopleOf(t, fake, db.Now,
			operators.Rule{Claim: "groups", Value: "boss", Role: broker.RolePlatformAdmin},
			operators.Rule{Claim: "groups", Value: "ops", Role: broker.RoleOperator, Sites: []string{"dc1"}},
			operators.Rule{Claim: "groups", Value: "gone", Role: broker.RoleProjectAdmin, Project: "acme/gone"},
			operators.Rule{Claim: "groups", Value: "lab", Role: broker.RoleProjectMember, Project: "acme/lab"},
			operators.Rule{Claim: "groups", Value: "acme", Role: broker.RoleTenantAdmin, Organisation: acme.ID},
		))
		who := func(groups ...string) (broker.OperatorToken, error) {
			return d.Authenticate(t.Context(), fake.Token(t, "u-"+strings.Join(groups, "-"), map[string]any{"groups": groups}), netip.MustParseAddr("192.0.2.1"))
		}
		for _, row := range []struct {
			groups []string
			role   broker.Role
			sites  string
			place  broker.Place
			code   string
		}{
			{[]string{"boss"}, broker.RolePlatformAdmin, "", broker.Place{}, ""},
			{[]string{"lab", "ops"}, broker.RoleOperator, "dc1", broker.Place{}, ""}, // the order is the rules', not the claim's
			{[]string{"acme", "lab"}, broker.RoleProjectMember, "", lab.Place(), ""},
			{[]string{"acme"}, broker.RoleTenantAdmin, "", broker.Place{OrganisationID: acme.ID}, ""},
			{[]string{"gone", "acme"}, "", "", broker.Place{}, "oidc_no_role"}, // a rule whose place is not there leads to no other
			{[]string{"staff"}, "", "", broker.Place{}, "oidc_no_role"},
			{nil, "", "", broker.Place{}, "oidc_no_role"},
		} {
			got, err := who(row.groups...)
			if row.code != "" {
				if e := broker.AsError(err); e.Code != row.code || e.Kind != broker.Forbidden || got.Name == "" {
					t.Errorf("%v: %+v, %v", row.groups, got, err)
				}
				continue
			}
			if err != nil || got.Role != row.role || strings.Join(got.Sites, ",") != row.sites || got.Place != row.place || got.ExpiresAt.IsZero() {
				t.Errorf("%v: %+v, %v", row.groups, got, err)
			}
		}

		// A place that ends takes its people's roles along, and so does a rule's name of it.
		if _, err := tenants.EndProject(t.Context(), ada, lab.ID, "over"); err != nil {
			t.Fatal(err)
		}
		if _, err := who("lab"); broker.AsError(err).Code != "oidc_no_role" {
			t.Errorf("of a project that has ended: %v", err)
		}
		if _, err := tenants.EndOrganisation(t.Context(), ada, acme.ID, "over"); err != nil {
			t.Fatal(err)
		}
		if _, err := who("acme"); broker.AsError(err).Code != "oidc_no_role" {
			t.Errorf("of an organisation that has ended, by its id: %v", err)
		}
	})
}

// The name of a person is on each audit row; one row now and then says whose name that is.
func TestASignInIsAuditedWithWhoItIs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		fake := oidctest.Start(t, db.Now)
		d := operators.New(db, db.Now, rand.Reader)
		d.Admit(peopleOf(t, fake, db.Now, operators.Rule{Claim: "sub", Value: "7", Role: broker.RoleViewer}))
		for _, email := range []string{"ada@acme.example", "ada@acme.example", "ada@new.example"} {
			raw := fake.Token(t, "7", map[string]any{"email": email, "email_verified": true})
			if got, err := d.Authenticate(t.Context(), raw, netip.Addr{}); err != nil || got.Email != email {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		rows, err := db.ListAudit(t.Context(), store.AuditFilter{Action: "sign_in"})
		if err != nil || len(rows) != 2 || rows[0].Actor != "oidc:7" || !strings.Contains(string(rows[0].After), "@acme.example") ||
			!strings.Contains(string(rows[1].After), "@new.example") || !strings.Contains(string(rows[1].After), `"rule":1`) {
			t.Errorf("%d rows: %+v, %v", len(rows), rows, err)
		}
	})
}

// A sign-in whose row cannot be written is refused and on record with the next request; the row does
// not depend on a caller who stays. Each rule that gives a role is on record.
func TestTheRowOfASignInIsNotLost(t *testing.T) {
	url := storetest.URL(t, "sqlite")
	db := storetest.Reopen(t, url, nil)
	raw, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	fake := oidctest.Start(t, db.Now)
	d := operators.New(db, db.Now, rand.Reader)
	d.Admit(peopleOf(t, fake, db.Now, operators.Rule{Claim: "groups", Value: "ops", Role: broker.RoleViewer},
		operators.Rule{Claim: "sub", Value: "7", Role: broker.RoleViewer}))
	ask := func(ctx context.Context, groups ...string) error {
		return errorOf(d.Authenticate(ctx, fake.Token(t, "7", map[string]any{"groups": groups}), netip.Addr{}))
	}
	if _, err := raw.Exec(`CREATE TRIGGER full BEFORE INSERT ON audit_logs BEGIN SELECT RAISE(ABORT, 'full'); END`); err != nil {
		t.Fatal(err)
	}
	if err := ask(t.Context()); err == nil {
		t.Error("a sign-in without a row")
	}
	if _, err := raw.Exec(`DROP TRIGGER full`); err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := ask(gone); err != nil {
		t.Error(err)
	}
	if err := ask(t.Context(), "ops"); err != nil {
		t.Error(err)
	}
	rows, err := db.ListAudit(t.Context(), store.AuditFilter{Action: "sign_in"})
	if err != nil || len(rows) != 2 || !strings.Contains(string(rows[0].After)+string(rows[1].After), `"rule":2`) {
		t.Errorf("%d rows: %+v, %v", len(rows), rows, err)
	}
}

func TestTokensWorkWhileTheProviderIsAway(t *testing.T) {
	db := storetest.Reopen(t, storetest.URL(t, "sqlite"), nil)
	fake := oidctest.Start(t, db.Now)
	fake.Away.Store(true)
	d := operators.New(db, db.Now, rand.Reader)
	raw := fake.Token(t, "7", nil)
	if _, err := d.Authenticate(t.Context(), raw, netip.Addr{}); broker.AsError(err).Code != "token_unknown" {
		t.Errorf("without a provider: %v", err)
	}
	if _, err := d.SignIn(t.Context()); broker.AsError(err).Code != "oidc_not_configured" {
		t.Errorf("without a provider: %v", err)
	}
	d.Admit(peopleOf(t, fake, db.Now, operators.Rule{Claim: "sub", Value: "7", Role: broker.RoleViewer}))
	_, secret, err := d.Create(t.Context(), broker.Actor{Name: "ada"}, operators.NewToken{Name: "ann", Role: broker.RoleViewer})
	if err != nil {
		t.Fatal(err)
	}
	if e := broker.AsError(errorOf(d.Authenticate(t.Context(), raw, netip.Addr{}))); e.Code != "oidc_unavailable" || e.Kind != broker.Unavailable {
		t.Errorf("a person: %v", e)
	}
	if got, err := d.Authenticate(t.Context(), secret.Reveal(), netip.Addr{}); err != nil || got.Name != "ann" {
		t.Errorf("a token: %+v, %v", got, err)
	}
}

func errorOf(_ broker.OperatorToken, err error) error { return err }

// A guesser of ID tokens pays as a guesser of operator tokens does, and a person as a bearer does.
func TestPeopleAreLimitedAsTokensAre(t *testing.T) {
	db := storetest.Reopen(t, storetest.URL(t, "sqlite"), nil)
	at := time.Now()
	now := func() time.Time { return at } // no bucket refills
	fake := oidctest.Start(t, now)
	d := operators.New(db, now, rand.Reader)
	d.Admit(peopleOf(t, fake, now, operators.Rule{Claim: "sub", Value: "7", Role: broker.RoleViewer}))
	until := func(raw string) (first, last string, tries int) {
		for tries = 1; tries < 1000 && last != "rate_limited"; tries++ {
			last = broker.AsError(errorOf(d.Authenticate(t.Context(), raw, netip.MustParseAddr("192.0.2.1")))).Code
			if first == "" {
				first = last
			}
		}
		return first, last, tries
	}
	if first, last, tries := until(fake.Token(t, "7", map[string]any{"aud": "billing"})); first != "oidc_token_invalid" || last != "rate_limited" || tries > 30 {
		t.Errorf("bad tokens: %s, %s after %d", first, last, tries)
	}
	good := fake.Token(t, "7", nil)
	if got, err := d.Authenticate(t.Context(), good, netip.MustParseAddr("192.0.2.1")); err != nil {
		t.Errorf("at the guesser's address: %+v, %v", got, err)
	}
	if _, last, tries := until(good); last != "rate_limited" || tries < 100 {
		t.Errorf("a busy person: %s after %d", last, tries)
	}
}

func TestARuleThatNobodyCouldUseIsRefused(t *testing.T) {
	c := oidc.Config{Issuer: "https://id.example", ClientID: "hostler"}
	for name, rules := range map[string][]operators.Rule{
		"none":                       nil,
		"no claim":                   {{Value: "a", Role: "viewer"}},
		"no value":                   {{Claim: "a", Role: "viewer"}},
		"odd value":                  {{Claim: "a", Value: "a\nb", Role: "viewer"}},
		"no role":                    {{Claim: "a", Value: "b"}},
		"no such role":               {{Claim: "a", Value: "b", Role: "root"}},
		"a tenant's, nowhere":        {{Claim: "a", Value: "b", Role: "project_admin"}},
		"the platform's, at a place": {{Claim: "a", Value: "b", Role: "operator", Organisation: "acme"}},
		"two places":                 {{Claim: "a", Value: "b", Role: "project_admin", Organisation: "acme", Project: "acme/lab"}},
		"a project of any":           {{Claim: "a", Value: "b", Role: "project_admin", Project: "lab"}},
		"an organisation's role":     {{Claim: "a", Value: "b", Role: "tenant_admin", Project: "acme/lab"}},
		"sites of a tenant":          {{Claim: "a", Value: "b", Role: "project_admin", Project: "acme/lab", Sites: []string{"dc1"}}},
		"sites of an admin":          {{Claim: "a", Value: "b", Role: "platform_admin", Sites: []string{"dc1"}}},
		"odd site":                   {{Claim: "a", Value: "b", Role: "viewer", Sites: []string{"DC 1"}}},
		"the second":                 {{Claim: "a", Value: "b", Role: "viewer"}, {Claim: "a", Value: "c", Role: "king"}},
	} {
		_, err := operators.NewPeople(operators.PeopleConfig{Config: c, Rules: rules}, time.Now)
		if broker.AsError(err).Code != "oidc_config_invalid" || name == "the second" && !strings.Contains(err.Error(), "rule 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
