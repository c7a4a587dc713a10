package adminapi_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
)

// sshKeyLine is a line of a .pub file.
func sshKeyLine(t *testing.T, comment string) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + " " + comment
}

func TestAnAdminKeepsTenants(t *testing.T) {
	b := servertest.Start(t)
	acme := servertest.Must[api.Organisation](t, b, http.MethodPost, "/organisations", api.OrganisationCreate{Name: "acme", Reason: "contract"})
	servertest.Must[api.Organisation](t, b, http.MethodPost, "/organisations", api.OrganisationCreate{Name: "beta"})
	lab := servertest.Must[api.Project](t, b, http.MethodPost, "/organisations/acme/projects", api.ProjectCreate{Name: "lab"})
	if lab.OrganisationID != acme.ID || lab.EndedAt != nil {
		t.Fatalf("%+v", lab)
	}
	ada := servertest.Must[api.Member](t, b, http.MethodPost, "/projects/acme%2Flab/members", api.MemberAdd{Subject: "ada", Role: "project_member"})
	key := servertest.Must[api.SSHKey](t, b, http.MethodPost, "/members/"+ada.ID+"/keys", api.SSHKeyAdd{PublicKey: sshKeyLine(t, "ada@<host>")})
	if key.MemberID != ada.ID || key.Comment != "ada@<host>" || !strings.HasPrefix(key.Fingerprint, "SHA256:") {
		t.Errorf("%+v", key)
	}
	servertest.Must[api.SKU](t, b, http.MethodPost, "/skus", map[string]any{"id": "h100.8gpu"})
	servertest.Must[api.Quota](t, b, http.MethodPut, "/projects/lab/quotas/h100.8gpu", api.QuotaPut{Nodes: 2, GPUs: 16})
	if got := servertest.Must[api.QuotaList](t, b, http.MethodGet, "/projects/"+lab.ID+"/quotas", nil); len(got.Items) != 1 || got.Items[0].GPUs != 16 {
		t.Errorf("%+v", got)
	}

	// Every list is a page, and what is empty is there.
	a := b.Ask(t, b.Token, http.MethodGet, "/organisations?limit=1", nil)
	var page api.OrganisationList
	if err := json.Unmarshal(a.Body, &page); err != nil || len(page.Items) != 1 || page.Next != acme.ID {
		t.Fatalf("%s, %v", a.Body, err)
	}
	a = b.Ask(t, b.Token, http.MethodGet, "/organisations?limit=1&cursor="+page.Next, nil)
	if !strings.Contains(string(a.Body), `"name":"beta"`) || !strings.Contains(string(a.Body), `"next":""`) || !strings.Contains(string(a.Body), `"ended_at":null`) {
		t.Errorf("%s", a.Body)
	}
	if got := servertest.Must[api.ProjectList](t, b, http.MethodGet, "/projects?organisation=beta", nil); len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
	if got := servertest.Must[api.MemberList](t, b, http.MethodGet, "/organisations/acme/members", nil); len(got.Items) != 1 || got.Items[0] != ada {
		t.Errorf("%+v", got)
	}

	// An end needs a reason, and comes from below.
	for _, row := range []struct{ method, path, code string }{
		{http.MethodPost, "/organisations/acme/end", "organisation_in_use"},
		{http.MethodPost, "/projects/lab/end", "project_in_use"},
		{http.MethodDelete, "/members/" + ada.ID + "/keys/" + key.ID, ""},
		{http.MethodPost, "/members/" + ada.ID + "/end", ""},
		{http.MethodPost, "/projects/lab/end", ""},
		{http.MethodPost, "/organisations/acme/end", ""},
	} {
		path, without, with := row.path, any(api.ReasonBody{}), any(api.ReasonBody{Reason: "done"})
		if row.method == http.MethodDelete {
			path, without, with = path+"?reason=done", nil, nil
		}
		if a := b.Ask(t, b.Token, row.method, row.path, without); a.Code() != "reason_missing" {
			t.Errorf("%s without a reason: %d %s", row.path, a.Status, a.Body)
		}
		if a := b.Ask(t, b.Token, row.method, path, with); a.Code() != row.code {
			t.Errorf("%s: %d %s, want %s", row.path, a.Status, a.Body, row.code)
		}
	}
	if got := servertest.Must[api.ProjectList](t, b, http.MethodGet, "/projects", nil); len(got.Items) != 0 {
		t.Errorf("ended projects are listed: %+v", got)
	}
	if got := servertest.Must[api.ProjectList](t, b, http.MethodGet, "/projects?ended=true", nil); len(got.Items) != 1 || got.Items[0].EndedAt == nil {
		t.Errorf("the record is gone: %+v", got)
	}
	keys := servertest.Must[api.SSHKeyList](t, b, http.MethodGet, "/members/"+ada.ID+"/keys?ended=true", nil)
	if len(keys.Items) != 1 || keys.Items[0].EndedAt == nil {
		t.Errorf("%+v", keys)
	}
}

func TestNamesOfTenantsAreCheckedAsText(t *testing.T) {
	b := servertest.Start(t)
	servertest.Must[api.Organisation](t, b, http.MethodPost, "/organisations", api.OrganisationCreate{Name: "acme"})
	for _, name := range []string{"<script>", "a b", "a\u001b[31m", "org-1", "../x", "Ä", strings.Repeat("x", 63) + "y"} {
		for _, path := range []string{"/organisations", "/organisations/acme/projects"} {
			a := b.Ask(t, b.Token, http.MethodPost, path, map[string]string{"name": name})
			if a.Status != http.StatusUnprocessableEntity || strings.ContainsAny(string(a.Body), "<\x1b") {
				t.Errorf("POST %s of %q: %d %s", path, name, a.Status, a.Body)
			}
		}
	}
}

func TestAMemberHasFurtherTokens(t *testing.T) {
	b := servertest.Start(t)
	acme := newTenant(t, b, "acme", "lab")
	laptop := b.NewToken(t, api.TokenCreate{Name: "laptop", Member: acme.member.ID})
	who := b.Ask(t, laptop, http.MethodGet, "/whoami", nil)
	for _, want := range []string{`"role":"project_member"`, acme.project.ID, acme.member.ID} {
		if !strings.Contains(string(who.Body), want) {
			t.Errorf("%s does not say %s", who.Body, want)
		}
	}
	// The member's own keys are theirs with each of the tokens.
	if a := b.Ask(t, laptop, http.MethodPost, "/members/"+acme.member.ID+"/keys", api.SSHKeyAdd{PublicKey: sshKeyLine(t, "laptop")}); a.Status != http.StatusOK {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	other := servertest.Must[api.Member](t, b, http.MethodPost, "/projects/"+acme.project.ID+"/members", api.MemberAdd{Subject: "laptop", Role: "project_member"})
	if a := b.Ask(t, laptop, http.MethodPost, "/members/"+other.ID+"/keys", api.SSHKeyAdd{PublicKey: sshKeyLine(t, "laptop")}); a.Code() != "role_insufficient" {
		t.Errorf("a member of the token's name: %d %s", a.Status, a.Body)
	}
	for code, body := range map[string]api.TokenCreate{
		"token_invalid":    {Name: "a", Member: acme.member.ID, Role: "project_admin"},
		"member_not_found": {Name: "a", Member: "mem-none"},
		"role_invalid":     {Name: "a"},
	} {
		if a := b.Ask(t, b.Token, http.MethodPost, "/tokens", body); a.Code() != code {
			t.Errorf("%d %s, want %s", a.Status, a.Body, code)
		}
	}
	servertest.Must[api.Member](t, b, http.MethodPost, "/members/"+acme.member.ID+"/end", api.ReasonBody{Reason: "left"})
	if a := b.Ask(t, laptop, http.MethodGet, "/whoami", nil); a.Code() != "token_revoked" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// The broker's clock moves 25 ms a request, so that a slow machine makes the same flood: 40 changes
// a second by an organisation, and fewer by each token than a token may make.
func TestATenantsFloodOfChangesIsRefused(t *testing.T) {
	var moved atomic.Int64
	b := servertest.Start(t, func(c *server.Config) {
		began := c.Now()
		c.Now = func() time.Time { return began.Add(time.Duration(moved.Load())) }
	})
	ends := func(token string) string {
		moved.Add(int64(25 * time.Millisecond))
		return b.Ask(t, token, http.MethodPost, "/members/mem-none/end", api.ReasonBody{Reason: "flood"}).Code()
	}
	acme := newTenant(t, b, "acme", "lab")
	// Changes that a caller may not make use nothing up: a viewer cannot stop the organisation.
	eve := b.NewToken(t, api.TokenCreate{Name: "eve", Role: "project_viewer", Project: acme.project.ID})
	for range 400 {
		if ends(eve) == "tenant_rate_limited" {
			t.Fatal("a viewer uses up the changes of the organisation")
		}
	}
	ada := b.NewToken(t, api.TokenCreate{Name: "ada", Role: "project_admin", Project: acme.project.ID})
	bob := b.NewToken(t, api.TokenCreate{Name: "bob", Role: "project_admin", Project: acme.project.ID})
	code := ""
	for i := 0; i < 1000 && code != "tenant_rate_limited"; i++ {
		token := ada
		if i%2 == 0 {
			token = bob
		}
		code = ends(token)
	}
	if code != "tenant_rate_limited" {
		t.Fatalf("the flood goes on: %s", code)
	}
	if _, code := b.DialTerminalAt(t, ada, "/projects/"+acme.project.ID+"/terminals/ts-none", "made-up"); code != "tenant_rate_limited" {
		t.Errorf("tickets of terminals are tried on: %q", code)
	}
	if a := b.Ask(t, ada, http.MethodGet, "/projects", nil); a.Status != http.StatusOK {
		t.Errorf("a read: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/members/mem-none/end", api.ReasonBody{Reason: "done"}); a.Code() != "member_not_found" {
		t.Errorf("the platform: %d %s", a.Status, a.Body)
	}
}
