package store_test

import (
	"fmt"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// The end of a member who signs in denies the person at that place and below it, until the denial is lifted.
func TestAMemberWhoSignsInIsDeniedOnceEnded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		acme := must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-acme", Name: "acme"}))(t)
		whole := broker.Place{OrganisationID: acme.ID}
		place := func(name string) broker.Place {
			return must(db.CreateProject(ctx, admin, broker.Project{ID: "prj-" + name, OrganisationID: acme.ID, Name: name}))(t).Place()
		}
		lab, shop := place("lab"), place("shop")
		denied := func(at broker.Place) bool { return must(db.PersonDenied(ctx, "oidc:7", at))(t) }
		listed := func(ended bool) int {
			page, _, err := db.Members(ctx, store.TenantPage{Within: whole, Ended: ended})
			ok(t, err)
			return len(page)
		}
		member := func(id string, at broker.Place) broker.Member {
			return broker.Member{ID: "mem-" + id, Subject: "oidc:7", Place: at, Role: broker.RoleProjectMember}
		}

		first := must(db.AddMember(ctx, admin, member("1", lab)))(t)
		must(db.AddSSHKey(ctx, admin, broker.SSHKey{ID: "key-1", MemberID: first.ID, PublicKey: "k", Fingerprint: "f"}))(t)
		m := must(db.EndMember(ctx, admin, first.ID, "left"))(t)
		if m.EndReason != "left" || m.DeniedAt.IsZero() || m.EndedAt.IsZero() || !denied(lab) || denied(shop) || denied(whole) {
			t.Errorf("of a project: %+v, %t %t %t", m, denied(lab), denied(shop), denied(whole))
		}
		if keys, _, err := db.SSHKeys(ctx, first.ID, store.TenantPage{}); err != nil || len(keys) != 0 {
			t.Errorf("keys are left: %v, %v", keys, err)
		}
		if got := must(db.Member(ctx, whole, first.ID))(t); got != m || listed(false) != 1 {
			t.Errorf("stored %+v, %d listed", got, listed(false))
		}
		if again := must(db.DenyPerson(ctx, admin, member("2", lab), "again"))(t); again != m {
			t.Errorf("denied again: %+v", again)
		}

		// To add the person again lifts the denial there.
		again := must(db.AddMember(ctx, admin, member("3", lab)))(t)
		if denied(lab) || listed(false) != 1 || listed(true) != 2 {
			t.Errorf("added again: %t, %d, %d", denied(lab), listed(false), listed(true))
		}

		// A denial in the organisation covers the projects, and ends the members there.
		all := must(db.DenyPerson(ctx, admin, member("4", whole), "stolen laptop"))(t)
		if all.Role != "" || !denied(lab) || !denied(shop) || !denied(whole) {
			t.Errorf("of the organisation: %+v", all)
		}
		if got := must(db.Member(ctx, whole, again.ID))(t); got.EndedAt.IsZero() || !got.DeniedAt.IsZero() || got.EndReason != "stolen laptop" {
			t.Errorf("the member of a project: %+v", got)
		}
		refused(t, second(db.AddMember(ctx, admin, member("5", shop))), "person_denied")
		for range 2 {
			if m := must(db.AllowPerson(ctx, admin, all.ID, "found it"))(t); !m.DeniedAt.IsZero() || m.EndedAt.IsZero() || denied(lab) {
				t.Errorf("allowed: %+v", m)
			}
		}
		refused(t, second(db.AllowPerson(ctx, admin, "mem-none", "r")), "member_not_found")
		if listed(false) != 0 {
			t.Errorf("%d are listed", listed(false))
		}

		// Nobody else is denied: a program's tokens end with the member.
		bot := must(db.AddMember(ctx, admin, broker.Member{ID: "mem-bot", Subject: "bot", Place: lab, Role: broker.RoleProjectMember}))(t)
		if m := must(db.EndMember(ctx, admin, bot.ID, "old"))(t); !m.DeniedAt.IsZero() || m.EndReason != "old" {
			t.Errorf("a program: %+v", m)
		}
	})
}

// Denials of made-up names fill one place. They keep no other place from denying, and no member from being ended.
func TestAPlaceDeniesSoManyPeopleWhoAreNoMembers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		acme := must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-acme", Name: "acme"}))(t)
		whole := broker.Place{OrganisationID: acme.ID}
		lab := must(db.CreateProject(ctx, admin, broker.Project{ID: "prj-lab", OrganisationID: acme.ID, Name: "lab"}))(t).Place()
		shop := must(db.CreateProject(ctx, admin, broker.Project{ID: "prj-shop", OrganisationID: acme.ID, Name: "shop"}))(t).Place()
		fill := func(at broker.Place) {
			for i := range 1000 {
				ok(t, store.Exec(ctx, db, `INSERT INTO members (id, subject, organisation_id, project_id, role, created_at, ended_at, denied_at)
					VALUES ($1, $1, $2, $3, '', 1, 1, 1)`, fmt.Sprintf("oidc:%s-%d", at.ProjectID, i), acme.ID, at.ProjectID))
			}
		}
		one := func(name string, at broker.Place) broker.Member {
			return broker.Member{ID: "mem-" + name + at.ProjectID, Subject: "oidc:" + name, Place: at, Role: broker.RoleProjectMember}
		}

		fill(lab)
		ada := must(db.AddMember(ctx, admin, one("ada", lab)))(t)
		must(db.AddMember(ctx, admin, one("bob", lab)))(t)
		if m := must(db.EndMember(ctx, admin, ada.ID, "left"))(t); m.DeniedAt.IsZero() || m.EndedAt.IsZero() {
			t.Errorf("a member of a full project: %+v", m)
		}
		must(db.DenyPerson(ctx, admin, one("bob", lab), "left"))(t)
		refused(t, second(db.DenyPerson(ctx, admin, one("eve", lab), "left")), "denial_limit")
		for _, at := range []broker.Place{shop, whole} {
			must(db.DenyPerson(ctx, admin, one("eve", at), "left"))(t)
		}

		fill(whole)
		must(db.AddMember(ctx, admin, one("cy", shop)))(t)
		must(db.DenyPerson(ctx, admin, one("cy", whole), "left"))(t) // a member below it
		refused(t, second(db.DenyPerson(ctx, admin, one("dan", whole), "left")), "denial_limit")
		for i := range 2 { // eve and cy are denied, too
			must(db.AllowPerson(ctx, admin, fmt.Sprintf("oidc:-%d", i), "room"))(t)
		}
		refused(t, second(db.DenyPerson(ctx, admin, one("dan", whole), "left")), "denial_limit")
		must(db.AllowPerson(ctx, admin, "oidc:-2", "room"))(t)
		must(db.DenyPerson(ctx, admin, one("dan", whole), "left"))(t)
	})
}
