package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A member may have several tokens, and all end with the member.
func TestAMembersTokensEndWithTheMember(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		acme := must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-acme", Name: "acme"}))(t)
		lab := must(db.CreateProject(ctx, admin, broker.Project{ID: "prj-" + acme.ID + "-lab", OrganisationID: acme.ID, Name: "lab"}))(t)
		beta := must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-beta", Name: "beta"}))(t)
		ada := must(db.AddMember(ctx, admin, broker.Member{ID: "mem-ada0", Subject: "ada", Place: lab.Place(), Role: broker.RoleProjectMember}))(t)
		give := func(name string, change func(*broker.OperatorToken)) error {
			o := broker.OperatorToken{Name: name, Role: ada.Role, Place: ada.Place, MemberID: ada.ID, ExpiresAt: clock.Now().Add(time.Hour)}
			if change != nil {
				change(&o)
			}
			return db.CreateOperatorToken(ctx, admin, o, "hash-"+name)
		}
		for name, change := range map[string]func(*broker.OperatorToken){
			"ada-laptop": nil, "ada-ci": nil,
			"ada":      func(o *broker.OperatorToken) { o.MemberID = "" }, // of the member's name
			"ada-late": func(o *broker.OperatorToken) { o.ExpiresAt = clock.Now().Add(time.Minute) },
		} {
			if err := give(name, change); err != nil {
				t.Fatal(err)
			}
			if got := must(db.OperatorByHash(ctx, "hash-"+name))(t); got.MemberID != ada.ID {
				t.Errorf("%s is of member %q", name, got.MemberID)
			}
		}
		refused(t, give("ada-boss", func(o *broker.OperatorToken) { o.Role = broker.RoleProjectAdmin }), "member_role_differs")
		refused(t, give("ada-beta", func(o *broker.OperatorToken) { o.Place = broker.Place{OrganisationID: beta.ID} }), "member_not_found")
		refused(t, give("ada-none", func(o *broker.OperatorToken) { o.MemberID = "mem-none" }), "member_not_found")
		for i := range 4 {
			if err := give(fmt.Sprintf("ada-%d", i), nil); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, give("ada-9", nil), "member_token_limit")
		clock.Advance(2 * time.Minute) // ada-late has expired
		if err := give("ada-9", nil); err != nil {
			t.Error(err)
		}
		refused(t, give("ada-10", nil), "member_token_limit")

		must(db.EndMember(ctx, admin, ada.ID, "left"))(t)
		for _, name := range []string{"ada", "ada-laptop", "ada-ci", "ada-9"} {
			if got := must(db.OperatorByHash(ctx, "hash-"+name))(t); got.RevokedAt.IsZero() {
				t.Errorf("%s opens doors", name)
			}
		}
		refused(t, give("ada-more", nil), "member_ended")
	})
}

// A broker of the release before knows no members of tokens: the tokens that it makes end with the
// member of their name, even if that member had ended when they were made.
func TestAnOlderBrokersTokenEndsWithItsMember(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		acme := must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-acme", Name: "acme"}))(t)
		at := broker.Place{OrganisationID: acme.ID}
		older := func(name string) {
			t.Helper()
			o := broker.OperatorToken{Name: name, Role: broker.RoleProjectViewer, ExpiresAt: clock.Now().Add(time.Hour)}
			if err := db.CreateOperatorToken(ctx, admin, o, "hash-"+name); err != nil {
				t.Fatal(err)
			}
			ok(t, store.Exec(ctx, db, `UPDATE operator_tokens SET organisation_id = $1 WHERE name = $2`, acme.ID, name))
		}
		revoked := func(name string) bool { return !must(db.OperatorByHash(ctx, "hash-"+name))(t).RevokedAt.IsZero() }

		ada := must(db.AddMember(ctx, admin, broker.Member{ID: "mem-ada1", Subject: "ada", Place: at, Role: broker.RoleProjectViewer}))(t)
		must(db.EndMember(ctx, admin, ada.ID, "left"))(t)
		older("ada")
		again := must(db.AddMember(ctx, admin, broker.Member{ID: "mem-ada2", Subject: "ada", Place: at, Role: broker.RoleProjectViewer}))(t)
		must(db.EndMember(ctx, admin, ada.ID, "left"))(t)
		if revoked("ada") {
			t.Error("the end of a former member ended the token of the present one")
		}
		must(db.EndMember(ctx, admin, again.ID, "left"))(t)
		if !revoked("ada") {
			t.Error("the end of the member did not end the token")
		}

		bob := must(db.AddMember(ctx, admin, broker.Member{ID: "mem-bob3", Subject: "bob", Place: at, Role: broker.RoleProjectViewer}))(t)
		must(db.EndMember(ctx, admin, bob.ID, "left"))(t)
		older("bob")
		must(db.EndMember(ctx, admin, bob.ID, "left"))(t)
		if !revoked("bob") {
			t.Error("ending a member again left a token that an older broker made")
		}

		// An older broker ends a member, and not the member's further tokens.
		eve := must(db.AddMember(ctx, admin, broker.Member{ID: "mem-eve", Subject: "eve", Place: at, Role: broker.RoleProjectViewer}))(t)
		ok(t, db.CreateOperatorToken(ctx, admin, broker.OperatorToken{Name: "eve-ci", Role: eve.Role, Place: at, MemberID: eve.ID}, "hash-eve-ci"))
		if revoked("eve-ci") {
			t.Error("the token of a live member is revoked")
		}
		ok(t, store.Exec(ctx, db, `UPDATE members SET ended_at = $1 WHERE id = $2`, clock.Now().UnixMicro(), eve.ID))
		if !revoked("eve-ci") {
			t.Error("the token of a member that an older broker ended opens doors")
		}
	})
}

func TestAnOrganisationHasSoManyMembersAndProjects(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		acme := must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-acme", Name: "acme"}))(t)
		lab := must(db.CreateProject(ctx, admin, broker.Project{ID: "prj-" + acme.ID + "-lab", OrganisationID: acme.ID, Name: "lab"}))(t)
		ada := must(db.AddMember(ctx, admin, broker.Member{ID: "mem-ada4", Subject: "ada", Place: lab.Place(), Role: broker.RoleProjectViewer}))(t)
		for i := 1; i < 1000; i++ {
			ok(t, store.Exec(ctx, db, `INSERT INTO members (id, subject, organisation_id, project_id, role, created_at) VALUES ($1, $1, $2, '', 'project_viewer', 1)`,
				fmt.Sprintf("mem-%d", i), acme.ID))
		}
		for i := 1; i < 200; i++ {
			ok(t, store.Exec(ctx, db, `INSERT INTO projects (id, organisation_id, name, created_at) VALUES ($1, $2, $1, 1)`, fmt.Sprintf("prj-%d", i), acme.ID))
		}
		_, err := db.AddMember(ctx, admin, broker.Member{ID: "mem-bob5", Subject: "bob", Place: lab.Place(), Role: broker.RoleProjectViewer})
		refused(t, err, "member_limit")
		refused(t, db.CreateOperatorToken(ctx, admin, broker.OperatorToken{Name: "bob", Role: broker.RoleProjectViewer, Place: lab.Place()}, "hash-bob"), "member_limit")
		_, err = db.CreateProject(ctx, admin, broker.Project{ID: "prj-" + acme.ID + "-more", OrganisationID: acme.ID, Name: "more"})
		refused(t, err, "project_limit")
		must(db.EndMember(ctx, admin, ada.ID, "left"))(t)
		must(db.AddMember(ctx, admin, broker.Member{ID: "mem-bob6", Subject: "bob", Place: lab.Place(), Role: broker.RoleProjectViewer}))(t)
		beta := must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-beta", Name: "beta"}))(t)
		must(db.CreateProject(ctx, admin, broker.Project{ID: "prj-" + beta.ID + "-lab", OrganisationID: beta.ID, Name: "lab"}))(t)
	})
}
