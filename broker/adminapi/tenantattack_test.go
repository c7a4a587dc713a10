package adminapi_test

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/adminapi"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// tenant is an organisation with one of everything.
type tenant struct {
	org     api.Organisation
	project api.Project
	member  api.Member
	key     api.SSHKey
	hook    api.Webhook    // see TestATenantReachesNothingOfAnother
	held    api.Allocation // see holds

	reserved api.PlatformReservation // see reserves

	operation string // its id, see operated
}

func newTenant(t *testing.T, b *servertest.Broker, name, project string) (n tenant) {
	t.Helper()
	n.org = servertest.Must[api.Organisation](t, b, http.MethodPost, "/organisations", api.OrganisationCreate{Name: name})
	n.project = servertest.Must[api.Project](t, b, http.MethodPost, "/organisations/"+name+"/projects", api.ProjectCreate{Name: project})
	n.member = servertest.Must[api.Member](t, b, http.MethodPost, "/projects/"+n.project.ID+"/members", api.MemberAdd{Subject: "of-" + name, Role: "project_member"})
	n.key = servertest.Must[api.SSHKey](t, b, http.MethodPost, "/members/"+n.member.ID+"/keys", api.SSHKeyAdd{PublicKey: sshKeyLine(t, name)})
	return n
}

// holds makes the tenant hold a node of a SKU.
func (n *tenant) holds(t *testing.T, b *servertest.Broker, sku string) {
	t.Helper()
	n.quota(t, b, sku, 1)
	n.held = n.allocated(t, b, b.Token, n.asks(sku, 1))
}

// tokens are a tenant's tokens, one of each role at its project, and those of the organisation.
func (n tenant) tokens(t *testing.T, b *servertest.Broker) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, role := range []string{"project_viewer", "project_member", "project_admin"} {
		name := n.org.Name + "-" + strings.ReplaceAll(role, "_", "-")
		out[role+" of a project"] = b.NewToken(t, api.TokenCreate{Name: name, Role: role, Project: n.project.ID})
		out[role] = b.NewToken(t, api.TokenCreate{Name: name + "-org", Role: role, Organisation: n.org.ID})
	}
	out["tenant_admin"] = b.NewToken(t, api.TokenCreate{Name: n.org.Name + "-admin", Role: "tenant_admin", Organisation: n.org.ID})
	return out
}

// isTenants reports whether a path is of the nouns of tenants.
func isTenants(path string) bool { return api.Path(path) == api.TenantPrefix+path }

// TestATenantReachesNothingOfAnother sends every route of tenants the ids and names of another
// tenant, with a token of every role. Each answer is that of a thing that never was, word for word.
func TestATenantReachesNothingOfAnother(t *testing.T) {
	r := newReceiver(t)
	b := servertest.Start(t, r.allowed(t))
	undisturbed(t, b)
	stocked(t, b, "h100.8gpu", 3)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	mine.holds(t, b, "h100.8gpu")
	theirs.holds(t, b, "h100.8gpu")
	theirs.reserves(t, b, "h100.8gpu", 1)
	theirs.operation = theirs.operated(t, b)
	theirs.hook = create(t, b, b.Token, theirs, r.URL).Webhook
	for _, level := range []string{"/organisations/" + theirs.org.ID, "/projects/" + theirs.project.ID} {
		servertest.Must[api.OperationPolicy](t, b, http.MethodPut, level+"/operation-policies/model.artifact.stage", api.OperationPolicyPut{Policy: api.OperationOverlay{Enabled: new(false)}})
	}
	bodies := map[string]any{
		"/organisations":                             api.OrganisationCreate{Name: "new"},
		"/organisations/{organisation}/members":      api.MemberAdd{Subject: "eve", Role: "project_viewer"},
		"/organisations/{organisation}/members/deny": api.MemberDeny{Subject: "oidc:eve", Reason: "r"},
		"/projects/{project}/members/deny":           api.MemberDeny{Subject: "oidc:eve", Reason: "r"},
		"/organisations/{organisation}/projects":     api.ProjectCreate{Name: "new"},
		"/projects/{project}/members":                api.MemberAdd{Subject: "eve", Role: "project_viewer"},
		"/projects/{project}/quotas/{sku}":           api.QuotaPut{Nodes: 9, GPUs: 9},
		"/members/{member}/keys":                     api.SSHKeyAdd{PublicKey: sshKeyLine(t, "eve")},
		"/projects/{project}/allocations":            mine.asks("h100.8gpu", 1),
		"/projects/{project}/webhooks":               api.WebhookCreate{URL: r.URL},
		"/projects/{project}/operation-bindings":     api.ProjectBindings{OnBegin: &api.BoundOperation{Operation: "runtime.readiness.verify@v1"}},
		"/projects/{project}/operations":             api.OperationCreate{Operation: "runtime.readiness.verify@v1", AllocationID: theirs.held.ID},
		"/projects/{project}/operations/plan":        api.OperationCreate{Operation: "runtime.readiness.verify@v1", AllocationID: theirs.held.ID},

		"/organisations/{organisation}/operation-policies/{operation_type}": api.OperationPolicyPut{Policy: api.OperationOverlay{Enabled: new(true)}},
		"/projects/{project}/operation-policies/{operation_type}":           api.OperationPolicyPut{Policy: api.OperationOverlay{Enabled: new(true)}},

		"/projects/{project}/allocations/{allocation}/terminals": api.ProjectTerminalStart{Columns: 80, Rows: 24},
		"/projects/{project}/terminals/{terminal}/tickets":       api.TerminalTicketRequest{Columns: 80, Rows: 24},
	}
	tokens := mine.tokens(t, b)
	routes := 0
	for _, r := range adminapi.Routes() {
		if !isTenants(r.Path) || !strings.Contains(r.Path, "{") {
			continue
		}
		routes++
		send := bodies[r.Path]
		if send == nil && r.Method != http.MethodGet && r.Method != http.MethodDelete {
			send = api.ReasonBody{Reason: "mine now"}
		}
		query := ""
		if r.Method == http.MethodDelete {
			query = "?reason=mine"
		} else if r.Method == http.MethodGet {
			send = nil
		}
		for role, token := range tokens {
			for _, ref := range []struct{ theirs, nobodys map[string]string }{
				{
					map[string]string{"{organisation}": theirs.org.ID, "{project}": theirs.project.ID, "{member}": theirs.member.ID, "{key}": theirs.key.ID, "{allocation}": theirs.held.ID, "{reservation}": theirs.reserved.ID, "{operation}": theirs.operation, "{terminal}": "ts-none", "{webhook}": theirs.hook.ID},
					map[string]string{"{organisation}": "org-none", "{project}": "prj-none", "{member}": "mem-none", "{key}": "key-none", "{allocation}": "alc-none", "{reservation}": "rsv-none", "{operation}": "op-none", "{terminal}": "ts-none", "{webhook}": "whk-none"},
				},
				{
					map[string]string{"{organisation}": "secret", "{project}": "moonshot", "{member}": "of-secret", "{key}": theirs.key.ID, "{allocation}": theirs.held.ID, "{reservation}": theirs.reserved.ID, "{operation}": theirs.operation, "{terminal}": "ts-none", "{webhook}": theirs.hook.ID},
					map[string]string{"{organisation}": "nobody", "{project}": "nothing", "{member}": "of-nobody", "{key}": "key-none", "{allocation}": "alc-none", "{reservation}": "rsv-none", "{operation}": "op-none", "{terminal}": "ts-none", "{webhook}": "whk-none"},
				},
				{
					map[string]string{"{organisation}": "secret", "{project}": "secret%2Fmoonshot", "{member}": theirs.member.ID, "{key}": theirs.key.ID, "{allocation}": theirs.held.ID, "{reservation}": theirs.reserved.ID, "{operation}": theirs.operation, "{terminal}": "ts-none", "{webhook}": theirs.hook.ID},
					map[string]string{"{organisation}": "nobody", "{project}": "nobody%2Fnothing", "{member}": "mem-none", "{key}": "key-none", "{allocation}": "alc-none", "{reservation}": "rsv-none", "{operation}": "op-none", "{terminal}": "ts-none", "{webhook}": "whk-none"},
				},
			} {
				b.Advance(1e9) // no token asks too often
				was := b.Ask(t, token, r.Method, named(r.Path, ref.theirs)+query, send)
				never := b.Ask(t, token, r.Method, named(r.Path, ref.nobodys)+query, send)
				if was.Status != http.StatusNotFound && was.Code() != "role_insufficient" {
					t.Errorf("%s %s as %s: %d %s", r.Method, named(r.Path, ref.theirs), role, was.Status, was.Body)
				}
				if was.Status != never.Status || unnamed(was.Body, ref.theirs) != unnamed(never.Body, ref.nobodys) {
					t.Errorf("%s %s as %s tells %s apart from %s", r.Method, r.Path, role, was.Body, never.Body)
				}
			}
		}
	}
	if routes < 15 {
		t.Errorf("only %d routes of tenants were attacked", routes)
	}
	// An allocation's id is looked for among the allocations of the named project alone.
	for role, token := range tokens {
		for rest, method := range map[string]string{"": http.MethodGet, "/timeline": http.MethodGet, "/certificates": http.MethodGet, "/certificates/r-1.1": http.MethodGet, "/release": http.MethodPost} {
			send := any(nil)
			if method == http.MethodPost {
				send = api.ReasonBody{Reason: "mine now"}
			}
			b.Advance(1e9)
			was := b.Ask(t, token, method, mine.allocations()+"/"+theirs.held.ID+rest, send)
			never := b.Ask(t, token, method, mine.allocations()+"/alc-none"+rest, send)
			if was.Code() != "allocation_not_found" && was.Code() != "role_insufficient" ||
				strings.ReplaceAll(string(was.Body), theirs.held.ID, "alc-none") != string(never.Body) {
				t.Errorf("%s %s of another project's allocation as %s: %d %s", method, rest, role, was.Status, was.Body)
			}
		}
	}
	// So is a reservation's.
	for role, token := range tokens {
		b.Advance(1e9)
		was := b.Ask(t, token, http.MethodGet, mine.reservations()+"/"+theirs.reserved.ID, nil)
		never := b.Ask(t, token, http.MethodGet, mine.reservations()+"/rsv-none", nil)
		if was.Code() != "reservation_not_found" || strings.ReplaceAll(string(was.Body), theirs.reserved.ID, "rsv-none") != string(never.Body) {
			t.Errorf("another project's reservation as %s: %d %s", role, was.Status, was.Body)
		}
	}
	// So is an operation's.
	for role, token := range tokens {
		for rest, method := range map[string]string{"": http.MethodGet, "/logs": http.MethodGet, "/logs?follow=true": http.MethodGet, "/statement": http.MethodGet, "/cancel": http.MethodPost, "/retry": http.MethodPost} {
			send := any(nil)
			if method == http.MethodPost {
				send = api.ReasonBody{Reason: "mine now"}
			}
			b.Advance(1e9)
			was := b.Ask(t, token, method, mine.operations()+"/"+theirs.operation+rest, send)
			never := b.Ask(t, token, method, mine.operations()+"/op-none"+rest, send)
			if was.Code() != "operation_not_found" && was.Code() != "role_insufficient" ||
				strings.ReplaceAll(string(was.Body), theirs.operation, "op-none") != string(never.Body) {
				t.Errorf("%s %s of another project's operation as %s: %d %s", method, rest, role, was.Status, was.Body)
			}
		}
		// Nor is an operation begun on another project's allocation.
		for _, rest := range []string{"", "/plan"} {
			b.Advance(1e9)
			was := b.Ask(t, token, http.MethodPost, mine.operations()+rest, api.OperationCreate{Operation: readiness, AllocationID: theirs.held.ID})
			never := b.Ask(t, token, http.MethodPost, mine.operations()+rest, api.OperationCreate{Operation: readiness, AllocationID: "alc-none"})
			if was.Code() != "allocation_not_found" && was.Code() != "role_insufficient" ||
				strings.ReplaceAll(string(was.Body), theirs.held.ID, "alc-none") != string(never.Body) {
				t.Errorf("an operation on another project's allocation as %s: %d %s", role, was.Status, was.Body)
			}
		}
	}
	// So is a webhook's.
	for role, token := range tokens {
		for rest, method := range map[string]string{"": http.MethodGet, "?reason=r": http.MethodDelete, "/test": http.MethodPost, "/enable": http.MethodPost, "/rotate-secret": http.MethodPost} {
			send := any(nil)
			if method == http.MethodPost && rest != "/test" {
				send = api.ReasonBody{Reason: "mine now"}
			}
			b.Advance(1e9)
			was := b.Ask(t, token, method, mine.webhooks()+"/"+theirs.hook.ID+rest, send)
			never := b.Ask(t, token, method, mine.webhooks()+"/whk-none"+rest, send)
			if was.Code() != "webhook_not_found" && was.Code() != "role_insufficient" ||
				strings.ReplaceAll(string(was.Body), theirs.hook.ID, "whk-none") != string(never.Body) {
				t.Errorf("%s %s of another project's webhook as %s: %d %s", method, rest, role, was.Status, was.Body)
			}
		}
	}
	// A key's id is looked for among the keys of the named member alone.
	a := b.Ask(t, tokens["tenant_admin"], http.MethodDelete, "/members/"+mine.member.ID+"/keys/"+theirs.key.ID+"?reason=r", nil)
	if a.Status != http.StatusNotFound || a.Code() != "ssh_key_not_found" {
		t.Errorf("another tenant's key: %d %s", a.Status, a.Body)
	}
	for _, path := range []string{"/organisations", "/projects", "/organisations?ended=true", "/projects?ended=true", "/projects?organisation=acme", "/organisations/acme/members", mine.allocations(), mine.operations(), mine.operations() + "?cursor=" + theirs.operation, mine.reservations() + "?ended=true"} {
		for role, token := range tokens {
			if a := b.Ask(t, token, http.MethodGet, path, nil); strings.Contains(string(a.Body), theirs.org.ID) || strings.Contains(string(a.Body), theirs.held.ID) || strings.Contains(string(a.Body), theirs.reserved.ID) || strings.Contains(string(a.Body), "moonshot") {
				t.Errorf("GET %s as %s lists %s", path, role, a.Body)
			}
		}
	}
	// Nothing of the other tenant has changed.
	if got := servertest.Must[api.PlatformAllocation](t, b, http.MethodGet, "/allocations/"+theirs.held.ID, nil); got.ReleasingAt != nil {
		t.Errorf("its allocation is %+v", got)
	}
	if got := servertest.Must[api.PlatformReservation](t, b, http.MethodGet, "/reservations/"+theirs.reserved.ID, nil); got.EndedAt != nil {
		t.Errorf("its reservation is %+v", got)
	}
	if got := servertest.Must[api.PlatformAllocationList](t, b, http.MethodGet, "/allocations?project="+theirs.project.ID, nil); len(got.Items) != 1 {
		t.Errorf("its allocations are %+v", got)
	}
	if got := servertest.Must[api.WebhookList](t, b, http.MethodGet, theirs.webhooks(), nil); len(got.Items) != 1 || got.Items[0].SecretCreatedAt != theirs.hook.SecretCreatedAt {
		t.Errorf("its webhooks are %+v", got)
	}
	if got := servertest.Must[api.MemberList](t, b, http.MethodGet, "/organisations/secret/members?ended=true", nil); len(got.Items) != 1 || got.Items[0] != theirs.member {
		t.Errorf("its members are %+v", got.Items)
	}
	if got := servertest.Must[api.SSHKeyList](t, b, http.MethodGet, "/members/"+theirs.member.ID+"/keys?ended=true", nil); len(got.Items) != 1 || got.Items[0] != theirs.key {
		t.Errorf("its keys are %+v", got.Items)
	}
	if got := servertest.Must[api.ProjectList](t, b, http.MethodGet, "/projects?organisation=secret&ended=true", nil); len(got.Items) != 1 || !reflect.DeepEqual(got.Items[0], theirs.project) {
		t.Errorf("its projects are %+v", got.Items)
	}
}

func named(path string, names map[string]string) string {
	for parameter, name := range names {
		path = strings.ReplaceAll(path, parameter, name)
	}
	return strings.NewReplacer("{sku}", "h100.8gpu", "{operation_type}", "model.artifact.stage").Replace(path)
}

// unnamed is an answer without the names that the caller sent.
func unnamed(body []byte, names map[string]string) string {
	text := string(body)
	parameters := slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(names[b]) - len(names[a]) })
	for _, parameter := range parameters { // a longer name may contain a shorter one
		text = strings.ReplaceAll(text, strings.ReplaceAll(names[parameter], "%2F", "/"), "NAME")
	}
	return text
}

// TestATenantSeesNothingOfThePlatform sends every route of the platform a token of every role of
// tenants, while a site is frozen.
func TestATenantSeesNothingOfThePlatform(t *testing.T) {
	b := servertest.Start(t)
	b.OnRecord(t, "dc1")
	node := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"})
	servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "r"})
	tokens := newTenant(t, b, "acme", "lab").tokens(t, b)
	for _, r := range adminapi.Routes() {
		if isTenants(r.Path) || r.Path == "/whoami" || r.Path == "/roots" {
			continue
		}
		for role, token := range tokens {
			b.Advance(1e9) // no token asks too often
			a := b.Ask(t, token, r.Method, filled(r.Path, node.NodeID), body(r.Method))
			if a.Status != http.StatusForbidden || a.Code() != "role_insufficient" || strings.Contains(string(a.Body), node.NodeID) {
				t.Errorf("%s %s as %s: %d %s", r.Method, r.Path, role, a.Status, a.Body)
			}
		}
	}
	for role, token := range tokens {
		for _, path := range []string{"/whoami", "/roots", "/projects", "/organisations"} {
			a := b.Ask(t, token, http.MethodGet, path, nil)
			if a.Status != http.StatusOK || a.Header.Get(api.HeaderFrozen) != "" || strings.Contains(string(a.Body), "dc1") {
				t.Errorf("GET %s as %s: %d %q %s", path, role, a.Status, a.Header.Get(api.HeaderFrozen), a.Body)
			}
		}
	}
}

func TestWhatEachRoleOfATenantMay(t *testing.T) {
	b := servertest.Start(t)
	mine := newTenant(t, b, "acme", "lab")
	other := servertest.Must[api.Project](t, b, http.MethodPost, "/organisations/acme/projects", api.ProjectCreate{Name: "other"})
	token := mine.tokens(t, b)
	who := map[string]api.Member{}
	for _, m := range servertest.Must[api.MemberList](t, b, http.MethodGet, "/organisations/acme/members", nil).Items {
		who[m.Subject] = m
	}
	add := func(subject, role string) api.MemberAdd { return api.MemberAdd{Subject: subject, Role: role} }
	key := func() api.SSHKeyAdd { return api.SSHKeyAdd{PublicKey: sshKeyLine(t, "k")} }
	end := api.ReasonBody{Reason: "r"}
	for _, row := range []struct {
		as, method, path string
		body             any
		code             string // empty: done
	}{
		{"project_viewer of a project", http.MethodGet, "/projects/lab", nil, ""},
		{"project_viewer of a project", http.MethodGet, "/projects/" + other.ID, nil, "project_not_found"},
		{"project_viewer of a project", http.MethodGet, "/organisations/acme", nil, ""},
		{"project_viewer", http.MethodGet, "/projects/other", nil, ""},
		{"project_viewer of a project", http.MethodPost, "/projects/lab/members", add("x1", "project_viewer"), "role_insufficient"},
		{"project_viewer of a project", http.MethodPost, "/members/" + who["acme-project-viewer"].ID + "/keys", key(), "role_insufficient"},
		{"project_member of a project", http.MethodPost, "/members/" + who["acme-project-member"].ID + "/keys", key(), ""},
		{"project_member of a project", http.MethodPost, "/members/" + mine.member.ID + "/keys", key(), "role_insufficient"},
		{"project_member of a project", http.MethodDelete, "/members/" + mine.member.ID + "/keys/" + mine.key.ID + "?reason=r", nil, "role_insufficient"},
		{"project_member of a project", http.MethodPost, "/members/" + mine.member.ID + "/end", end, "role_insufficient"},
		{"project_admin of a project", http.MethodPost, "/projects/lab/members", add("x2", "project_admin"), ""},
		{"project_admin of a project", http.MethodPost, "/projects/other/members", add("x3", "project_viewer"), "project_not_found"},
		{"project_admin of a project", http.MethodPost, "/members/" + mine.member.ID + "/keys", key(), ""},
		{"project_admin of a project", http.MethodPost, "/members/" + who["acme-admin"].ID + "/end", end, "member_not_found"},
		{"project_admin", http.MethodPost, "/members/" + who["acme-admin"].ID + "/end", end, "role_insufficient"},
		{"project_admin", http.MethodPost, "/members/" + who["acme-admin"].ID + "/keys", key(), "role_insufficient"},
		{"project_admin", http.MethodPost, "/members/" + who["acme-project-viewer-org"].ID + "/end", end, "role_insufficient"},
		{"project_admin", http.MethodPost, "/members/" + who["acme-project-viewer-org"].ID + "/keys", key(), "role_insufficient"},
		{"project_admin", http.MethodPost, "/organisations/acme/projects", api.ProjectCreate{Name: "p2"}, "role_insufficient"},
		{"tenant_admin", http.MethodPost, "/organisations/acme/projects", api.ProjectCreate{Name: "p2"}, ""},
		{"tenant_admin", http.MethodPost, "/organisations/acme/members", add("boss2", "tenant_admin"), ""},
		{"tenant_admin", http.MethodPost, "/organisations/acme/end", end, "role_insufficient"},
		{"tenant_admin", http.MethodPut, "/projects/lab/quotas/h100", api.QuotaPut{Nodes: 9}, "role_insufficient"},
		{"tenant_admin", http.MethodPost, "/projects/" + other.ID + "/end", end, ""},
		{"tenant_admin", http.MethodPost, "/members/" + who["acme-project-member"].ID + "/end", end, ""},
		// The token of a member that has ended is revoked.
		{"project_member of a project", http.MethodGet, "/whoami", nil, "token_revoked"},
	} {
		if a := b.Ask(t, token[row.as], row.method, row.path, row.body); a.Code() != row.code || row.code == "" && a.Status/100 != 2 {
			t.Errorf("%s %s as %s: %d %s, want %q", row.method, row.path, row.as, a.Status, a.Body, row.code)
		}
	}
	if rows := audited(t, b, "role_insufficient"); len(rows) == 0 {
		t.Error("no refusal is in the audit log")
	}
}

func TestATokenOfATenantNamesItsPlace(t *testing.T) {
	b := servertest.Start(t)
	mine := newTenant(t, b, "acme", "lab")
	for name, row := range map[string]struct {
		token api.TokenCreate
		code  string
	}{
		"no place":                    {api.TokenCreate{Role: "project_member"}, "role_invalid"},
		"a role of the platform":      {api.TokenCreate{Role: "operator", Project: "lab"}, "role_invalid"},
		"a tenant admin of a project": {api.TokenCreate{Role: "tenant_admin", Project: "lab"}, "role_invalid"},
		"two places":                  {api.TokenCreate{Role: "project_member", Project: "lab", Organisation: "acme"}, "token_invalid"},
		"sites":                       {api.TokenCreate{Role: "project_member", Project: "lab", Sites: []string{"dc1"}}, "token_invalid"},
		"no such project":             {api.TokenCreate{Role: "project_member", Project: "none"}, "project_not_found"},
		"no such organisation":        {api.TokenCreate{Role: "tenant_admin", Organisation: "none"}, "organisation_not_found"},
		"a member of another role":    {api.TokenCreate{Name: "of-acme", Role: "project_admin", Project: "lab"}, "member_role_differs"},
		"who is no member as yet":     {api.TokenCreate{Role: "project_viewer", Project: "lab"}, ""},
		"a name that a token has":     {api.TokenCreate{Name: "admin", Role: "project_viewer", Project: "lab"}, "token_name_taken"},
		"a role that is not a role":   {api.TokenCreate{Role: "root", Project: "lab"}, "invalid_request"},
	} {
		if row.token.Name == "" {
			row.token.Name = "t-" + strings.ReplaceAll(name, " ", "-")
		}
		a := b.Ask(t, b.Token, http.MethodPost, "/tokens", row.token)
		if a.Code() != row.code || row.code == "" && a.Status/100 != 2 {
			t.Errorf("%s: %d %s, want %q", name, a.Status, a.Body, row.code)
		}
	}
	b.NewToken(t, api.TokenCreate{Name: "of-acme", Role: "project_member", Project: "acme/lab"}) // a member already
	members := servertest.Must[api.MemberList](t, b, http.MethodGet, "/projects/lab/members", nil).Items
	if len(members) != 2 {
		t.Errorf("the members are %+v", members)
	}
	for _, k := range servertest.Must[api.TokenList](t, b, http.MethodGet, "/tokens", nil).Items {
		if of := k.Name == "of-acme"; of && (k.OrganisationID != mine.org.ID || k.ProjectID != mine.project.ID) {
			t.Errorf("%+v", k)
		}
	}
}
