package adminapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/operators"
	"github.com/hostler/hostler/broker/operators/oidc"
	"github.com/hostler/hostler/broker/operators/oidc/oidctest"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
)

// withPeople starts a broker where the groups of a provider's tokens give roles.
func withPeople(t *testing.T) (*servertest.Broker, *oidctest.Provider) {
	t.Helper()
	fake := oidctest.Start(t, servertest.Clock)
	b := servertest.Start(t, func(c *server.Config) {
		c.Often = 20 * time.Millisecond
		c.OIDC = &operators.PeopleConfig{
			Config: oidc.Config{Issuer: fake.Issuer, ClientID: oidctest.ClientID, CAFile: fake.CAFile},
			Rules: []operators.Rule{
				{Claim: "groups", Value: "ops", Role: broker.RoleOperator, Sites: []string{"dc1"}},
				{Claim: "groups", Value: "lab", Role: broker.RoleProjectMember, Project: "acme/lab"},
			},
		}
	})
	return b, fake
}

func TestAPersonOfATenantSeesItsProjectAlone(t *testing.T) {
	b, fake := withPeople(t)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	ada := fake.Token(t, "7", map[string]any{"groups": []string{"lab"}, "email": "ada@acme.example", "email_verified": true})
	who := b.Ask(t, ada, http.MethodGet, "/whoami", nil)
	for _, want := range []string{`"name":"oidc:7"`, `"email":"ada@acme.example"`, `"role":"project_member"`, mine.project.ID} {
		if !strings.Contains(string(who.Body), want) {
			t.Errorf("whoami does not say %s: %d %s", want, who.Status, who.Body)
		}
	}
	for path, code := range map[string]string{
		"/projects/" + mine.project.ID: "", "/projects/" + theirs.project.ID: "project_not_found", "/organisations/secret": "organisation_not_found",
		"/nodes": "role_insufficient", "/audit": "role_insufficient", "/tokens": "role_insufficient",
	} {
		if a := b.Ask(t, ada, http.MethodGet, path, nil); a.Code() != code {
			t.Errorf("%s: %d %s, want %q", path, a.Status, a.Body, code)
		}
	}

	// A person who is a member keeps SSH keys, and nobody else's.
	member := servertest.Must[api.Member](t, b, http.MethodPost, "/projects/acme%2Flab/members", api.MemberAdd{Subject: "oidc:7", Role: "project_member"})
	for id, status := range map[string]int{member.ID: http.StatusOK, mine.member.ID: http.StatusForbidden, theirs.member.ID: http.StatusNotFound} {
		if a := b.Ask(t, ada, http.MethodPost, "/members/"+id+"/keys", api.SSHKeyAdd{PublicKey: sshKeyLine(t, "ada")}); a.Status != status {
			t.Errorf("a key of %s: %d %s, want %d", id, a.Status, a.Body, status)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/tokens", api.TokenCreate{Name: "oidc:7", Role: "viewer"}); a.Status < 400 {
		t.Errorf("a token has a person's name: %s", a.Body)
	}
}

// An admin of a project denies people there, and nowhere else; the platform's people are in the rules alone.
func TestWhoMayDenyAPerson(t *testing.T) {
	b, fake := withPeople(t)
	mine := newTenant(t, b, "acme", "lab")
	tokens := mine.tokens(t, b)
	of, org := "/projects/"+mine.project.ID+"/members", "/organisations/"+mine.org.ID+"/members"
	ask := func(path, code string, roles ...string) {
		t.Helper()
		for _, role := range roles {
			var body any = api.MemberDeny{Subject: "oidc:7", Reason: "left"}
			if strings.HasSuffix(path, "/allow") {
				body = api.ReasonBody{Reason: "back"}
			}
			if a := b.Ask(t, tokens[role], http.MethodPost, path, body); a.Code() != code {
				t.Errorf("%s as %s: %d %s, want %q", path, role, a.Status, a.Body, code)
			}
		}
	}
	ask(of+"/deny", "role_insufficient", "project_member", "project_viewer")
	ask(org+"/deny", "role_insufficient", "project_admin", "project_member")
	ask(org+"/deny", "", "tenant_admin")
	lab := answered[api.Member](t, b.Ask(t, tokens["project_admin of a project"], http.MethodPost, of+"/deny", api.MemberDeny{Subject: "oidc:7", Reason: "left"}))
	whole := answered[api.MemberList](t, b.Ask(t, tokens["tenant_admin"], http.MethodGet, org, nil)).Items
	if i := slices.IndexFunc(whole, func(m api.Member) bool { return m.ProjectID == "" && m.DeniedAt != nil }); i < 0 || whole[i].EndReason != "left" {
		t.Errorf("the denial is not on the list: %+v", whole)
	} else {
		ask("/members/"+whole[i].ID+"/allow", "member_not_found", "project_admin of a project")
		ask("/members/"+whole[i].ID+"/allow", "role_insufficient", "project_admin")
		ask("/members/"+whole[i].ID+"/allow", "", "tenant_admin", "tenant_admin")
	}
	who := func(subject, group, code string) {
		t.Helper()
		if a := b.Ask(t, fake.Token(t, subject, map[string]any{"groups": []string{group}}), http.MethodGet, "/whoami", nil); a.Code() != code {
			t.Errorf("%s as %s: %d %s, want %q", subject, group, a.Status, a.Body, code)
		}
	}
	who("7", "lab", "person_denied")
	who("8", "lab", "")
	who("7", "ops", "")
	ask("/members/"+lab.ID+"/allow", "role_insufficient", "project_member of a project")
	ask("/members/"+lab.ID+"/allow", "", "project_admin of a project")
	who("7", "lab", "")
	for code, d := range map[string]api.MemberDeny{
		"member_invalid": {Subject: "of-acme", Reason: "a token ends when it is revoked"}, "reason_missing": {Subject: "oidc:7", Reason: " "},
	} {
		if a := b.Ask(t, b.Token, http.MethodPost, of+"/deny", d); a.Code() != code {
			t.Errorf("%d %s, want %s", a.Status, a.Body, code)
		}
	}
}

func TestAPersonOfThePlatformIsBoundToSites(t *testing.T) {
	b, fake := withPeople(t)
	ops := fake.Token(t, "8", map[string]any{"groups": []string{"ops", "lab"}})
	for path, code := range map[string]string{"/nodes": "", "/terminal-policy?site=dc2": "site_forbidden", "/organisations": ""} {
		if a := b.Ask(t, ops, http.MethodGet, path, nil); a.Code() != code {
			t.Errorf("%s: %d %s, want %q", path, a.Status, a.Body, code)
		}
	}
}

// Who is refused is on record by name, if the provider has proved the name; anybody else is not.
func TestAPersonWithoutARoleIsRefusedAndAudited(t *testing.T) {
	b, fake := withPeople(t)
	for range 3 {
		if a := b.Ask(t, fake.Token(t, "9", nil), http.MethodGet, "/nodes", nil); a.Status != http.StatusForbidden || a.Code() != "oidc_no_role" {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	if a := b.Ask(t, fake.Token(t, "9", map[string]any{"aud": "billing", "groups": []string{"ops"}}), http.MethodGet, "/nodes", nil); a.Status != http.StatusUnauthorized || a.Code() != "oidc_token_invalid" {
		t.Errorf("another audience: %d %s", a.Status, a.Body)
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=request.refused", nil)
	if len(rows.Items) != 1 || rows.Items[0].Actor != "oidc:9" || rows.Items[0].Code != "oidc_no_role" {
		t.Errorf("%+v", rows.Items)
	}
}

func TestAnybodyMayAskWherePeopleSignIn(t *testing.T) {
	b, fake := withPeople(t)
	a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+api.SignInPath, nil)
	for _, want := range []string{fake.Issuer + "/device", fake.Issuer + "/token", `"client_id":"hostler"`, "BEGIN CERTIFICATE"} {
		if a.Status != http.StatusOK || !strings.Contains(string(a.Body), want) {
			t.Errorf("%d %s does not say %s", a.Status, a.Body, want)
		}
	}
	none := servertest.Start(t)
	if a := none.Ask(t, "", http.MethodGet, none.OperatorURL()+api.SignInPath, nil); a.Status != http.StatusNotFound || a.Code() != "oidc_not_configured" {
		t.Errorf("without a provider: %d %s", a.Status, a.Body)
	}
}

// The route is open to all. A credential that nobody checks does not give its sender more places.
func TestStrangersWhoAskWherePeopleSignInAreBounded(t *testing.T) {
	b, fake := withPeople(t)
	release := make(chan struct{})
	fake.Lie = func(http.ResponseWriter) { <-release }
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: pki.ClientConfig(b.Roots, nil, b.Now), ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	const many = 80
	answers := make(chan int, many)
	for range many {
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, b.OperatorURL()+api.SignInPath, nil)
			req.Header.Set("Authorization", "Bearer x")
			res, err := client.Do(req)
			if err != nil { // cut, to make place
				answers <- http.StatusTooManyRequests
				return
			}
			_ = res.Body.Close()
			answers <- res.StatusCode
		}()
	}
	if first := <-answers; first != http.StatusTooManyRequests {
		t.Errorf("the first answer while the provider hangs: %d", first)
	}
	close(release)
	for range many - 1 {
		<-answers
	}
}

func TestAPersonsTokenEndsByTheBrokersClock(t *testing.T) {
	b, fake := withPeople(t)
	raw := fake.Token(t, "8", map[string]any{"groups": []string{"ops"}})
	if a := b.Ask(t, raw, http.MethodGet, "/whoami", nil); a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"expires_at"`) {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	b.Advance(2 * time.Hour)
	if a := b.Ask(t, raw, http.MethodGet, "/whoami", nil); a.Code() != "token_expired" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestABrokerStartsWithoutTheProvider(t *testing.T) {
	fake := oidctest.Start(t, servertest.Clock)
	fake.Away.Store(true)
	b := servertest.Start(t, func(c *server.Config) {
		c.OIDC = &operators.PeopleConfig{
			Config: oidc.Config{Issuer: fake.Issuer, ClientID: oidctest.ClientID, CAFile: fake.CAFile},
			Rules:  []operators.Rule{{Claim: "sub", Value: "7", Role: broker.RoleViewer}},
		}
	})
	if reads := fake.Reads.Load(); reads != 0 {
		t.Errorf("the start read the provider %d times", reads)
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/whoami", nil); a.Status != http.StatusOK {
		t.Errorf("a token: %d %s", a.Status, a.Body)
	}
	person := b.Ask(t, fake.Token(t, "7", nil), http.MethodGet, "/whoami", nil)
	signIn := b.Ask(t, "", http.MethodGet, b.OperatorURL()+api.SignInPath, nil)
	for _, a := range []servertest.Answer{person, signIn} {
		if a.Status != http.StatusServiceUnavailable || a.Code() != "oidc_unavailable" {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
}
