package tenancy_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/tenancy"
)

var (
	ctx  = context.Background()
	root = broker.Actor{Name: "root", Role: broker.RolePlatformAdmin}
)

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func refused(t *testing.T, err error, code string) {
	t.Helper()
	if err == nil || broker.AsError(err).Code != code {
		t.Errorf("%v, want %s", err, code)
	}
}

func TestNamesAreUniqueWithinTheirParentAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		d := tenancy.New(db)
		acme, other := must(d.CreateOrganisation(ctx, root, "acme"))(t), must(d.CreateOrganisation(ctx, root, "other"))(t)
		_, err := d.CreateOrganisation(ctx, root, "acme")
		refused(t, err, "organisation_exists")
		lab := must(d.CreateProject(ctx, root, acme.ID, "lab"))(t)
		_, err = d.CreateProject(ctx, root, acme.ID, "lab")
		refused(t, err, "project_exists")
		theirs := must(d.CreateProject(ctx, root, other.ID, "lab"))(t)
		_, err = d.CreateProject(ctx, root, "org-none", "lab")
		refused(t, err, "organisation_not_found")
		_, err = d.CreateProject(ctx, root, acme.ID, "org-1")
		refused(t, err, "name_invalid")

		// Of a name that several organisations have, each tenant means the own project.
		platform := broker.Place{}
		_, err = db.Project(ctx, platform, "lab")
		refused(t, err, "ambiguous_project")
		for within, want := range map[broker.Place]broker.Project{{OrganisationID: acme.ID}: lab, theirs.Place(): theirs} {
			if got := must(db.Project(ctx, within, "lab"))(t); !reflect.DeepEqual(got, want) {
				t.Errorf("within %+v it is %+v, want %+v", within, got, want)
			}
		}
		for _, ref := range []string{lab.ID, "acme/lab", acme.ID + "/lab"} {
			if got := must(db.Project(ctx, platform, ref))(t); !reflect.DeepEqual(got, lab) {
				t.Errorf("%s is %+v", ref, got)
			}
			_, err := db.Project(ctx, theirs.Place(), ref)
			refused(t, err, "project_not_found")
		}

		// A name is free again after an end, and the id still finds what has ended.
		must(d.EndProject(ctx, root, lab.ID, "done"))(t)
		again := must(d.CreateProject(ctx, root, acme.ID, "lab"))(t)
		if got := must(db.Project(ctx, platform, "acme/lab"))(t); got.ID != again.ID {
			t.Errorf("acme/lab is %+v", got)
		}
		if got := must(db.Project(ctx, platform, lab.ID))(t); !got.EndedAt.Equal(clock.Now()) {
			t.Errorf("it ended at %v", got.EndedAt)
		}
	})
}

func TestNothingEndsWhileSomethingOfItLives(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		d := tenancy.New(db)
		acme := must(d.CreateOrganisation(ctx, root, "acme"))(t)
		lab := must(d.CreateProject(ctx, root, acme.ID, "lab"))(t)
		ada := must(d.AddMember(ctx, root, lab.Place(), "ada", broker.RoleProjectMember))(t)
		boss := must(d.AddMember(ctx, root, broker.Place{OrganisationID: acme.ID}, "boss", broker.RoleTenantAdmin))(t)
		key := must(d.AddSSHKey(ctx, root, ada.ID, newKey(t)))(t)

		_, err := d.EndProject(ctx, root, lab.ID, "r")
		refused(t, err, "project_in_use")
		_, err = d.EndOrganisation(ctx, root, acme.ID, "r")
		refused(t, err, "organisation_in_use")
		must(d.EndMember(ctx, root, ada.ID, "left"))(t)
		keys, _, err := db.SSHKeys(ctx, ada.ID, store.TenantPage{Ended: true})
		if err != nil || len(keys) != 1 || keys[0].ID != key.ID || keys[0].EndedAt.IsZero() {
			t.Errorf("the member's keys are %+v, %v", keys, err)
		}
		ended := must(d.EndProject(ctx, root, lab.ID, "done"))(t)
		clock.Advance(time.Minute)
		if again := must(d.EndProject(ctx, root, lab.ID, "done"))(t); !again.EndedAt.Equal(ended.EndedAt) {
			t.Errorf("it ended again at %v", again.EndedAt)
		}
		_, err = d.EndOrganisation(ctx, root, acme.ID, "r")
		refused(t, err, "organisation_in_use") // the tenant admin
		must(d.EndMember(ctx, root, boss.ID, "left"))(t)
		must(d.EndOrganisation(ctx, root, acme.ID, "done"))(t)

		_, err = d.CreateProject(ctx, root, acme.ID, "late")
		refused(t, err, "organisation_ended")
		_, err = d.AddMember(ctx, root, lab.Place(), "late", broker.RoleProjectViewer)
		refused(t, err, "organisation_ended")
		_, err = d.AddSSHKey(ctx, root, ada.ID, newKey(t))
		refused(t, err, "member_ended")
		rows := must(db.ListAudit(ctx, store.AuditFilter{Limit: 100}))(t)
		actions := map[string]int{}
		for _, e := range rows {
			actions[e.Action+" "+e.Code]++
		}
		for _, want := range []string{"organisation.create ", "organisation.end ", "organisation.end organisation_in_use", "project.end project_in_use", "member.end ", "ssh_key.add "} {
			if actions[want] == 0 {
				t.Errorf("no audit row of %q in %v", want, actions)
			}
		}
	})
}

func TestMembersAreAddedAtAPlaceWithARoleOfTenants(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		d := tenancy.New(db)
		acme, other := must(d.CreateOrganisation(ctx, root, "acme"))(t), must(d.CreateOrganisation(ctx, root, "other"))(t)
		lab := must(d.CreateProject(ctx, root, acme.ID, "lab"))(t)
		ada := must(d.AddMember(ctx, root, lab.Place(), "ada", broker.RoleProjectMember))(t)
		_, err := d.AddMember(ctx, root, lab.Place(), "ada", broker.RoleProjectViewer)
		refused(t, err, "member_exists")
		_, err = d.AddMember(ctx, root, lab.Place(), "a da", broker.RoleProjectViewer)
		refused(t, err, "member_invalid")
		_, err = d.AddMember(ctx, root, broker.Place{}, "ada", broker.RoleProjectViewer)
		refused(t, err, "member_invalid")
		_, err = d.AddMember(ctx, root, lab.Place(), "eve", broker.RolePlatformAdmin)
		refused(t, err, "role_invalid")
		_, err = d.AddMember(ctx, root, broker.Place{OrganisationID: other.ID, ProjectID: lab.ID}, "eve", broker.RoleProjectViewer)
		refused(t, err, "project_not_found")
		admin := broker.Actor{Name: "pa", Role: broker.RoleProjectAdmin}
		must(d.AddMember(ctx, admin, lab.Place(), "peer", broker.RoleProjectAdmin))(t)
		_, err = d.AddMember(ctx, admin, broker.Place{OrganisationID: acme.ID}, "boss", broker.RoleTenantAdmin)
		refused(t, err, "role_insufficient")

		_, err = db.Member(ctx, broker.Place{OrganisationID: other.ID}, ada.ID)
		refused(t, err, "member_not_found")
		if got := must(db.Member(ctx, lab.Place(), ada.ID))(t); got != ada {
			t.Errorf("%+v, want %+v", got, ada)
		}
		page, next, err := db.Members(ctx, store.TenantPage{Within: lab.Place(), Limit: 1})
		if err != nil || len(page) != 1 || next != page[0].ID {
			t.Fatalf("%+v, %q, %v", page, next, err)
		}
		if page, next, err = db.Members(ctx, store.TenantPage{Within: lab.Place(), Limit: 1, After: next}); err != nil || len(page) != 1 || next != "" {
			t.Errorf("%+v, %q, %v", page, next, err)
		}
		if page, _, err := db.Members(ctx, store.TenantPage{Within: broker.Place{OrganisationID: other.ID}}); err != nil || len(page) != 0 {
			t.Errorf("another organisation has %+v, %v", page, err)
		}
	})
}

func TestAMemberHasEachKeyOnceAndNotTooMany(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		d := tenancy.New(db)
		acme := must(d.CreateOrganisation(ctx, root, "acme"))(t)
		ada := must(d.AddMember(ctx, root, broker.Place{OrganisationID: acme.ID}, "ada", broker.RoleProjectMember))(t)
		bob := must(d.AddMember(ctx, root, broker.Place{OrganisationID: acme.ID}, "bob", broker.RoleProjectMember))(t)
		line := newKey(t)
		first := must(d.AddSSHKey(ctx, root, ada.ID, line+" one"))(t)
		if again := must(d.AddSSHKey(ctx, root, ada.ID, line+" two"))(t); again != first {
			t.Errorf("%+v, want %+v", again, first)
		}
		for range 31 {
			must(d.AddSSHKey(ctx, root, ada.ID, newKey(t)))(t)
		}
		_, err := d.AddSSHKey(ctx, root, ada.ID, newKey(t))
		refused(t, err, "ssh_key_limit")
		_, err = d.EndSSHKey(ctx, root, bob.ID, first.ID, "lost")
		refused(t, err, "ssh_key_not_found")
		must(d.EndSSHKey(ctx, root, ada.ID, first.ID, "lost"))(t)
		if again := must(d.AddSSHKey(ctx, root, ada.ID, line))(t); again.ID == first.ID {
			t.Error("an ended key is live again")
		}
	})
}

func TestAQuotaIsAProjectsNumbersOfASKU(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		d := tenancy.New(db)
		acme := must(d.CreateOrganisation(ctx, root, "acme"))(t)
		lab := must(d.CreateProject(ctx, root, acme.ID, "lab"))(t)
		for i := range 3 {
			s := broker.NewSKU()
			s.ID = fmt.Sprint("sku", i)
			must(db.CreateSKU(ctx, root, s))(t)
			must(d.SetQuota(ctx, root, broker.Quota{ProjectID: lab.ID, SKU: s.ID, Nodes: i, GPUs: 8 * i}, "r"))(t)
		}
		must(d.SetQuota(ctx, root, broker.Quota{ProjectID: lab.ID, SKU: "sku2", Nodes: 5, GPUs: 40}, "more"))(t)
		_, err := d.SetQuota(ctx, root, broker.Quota{ProjectID: lab.ID, SKU: "none"}, "r")
		refused(t, err, "sku_not_found")
		_, err = d.SetQuota(ctx, root, broker.Quota{ProjectID: "prj-none", SKU: "sku1"}, "r")
		refused(t, err, "project_not_found")
		_, err = d.SetQuota(ctx, root, broker.Quota{ProjectID: lab.ID, SKU: "sku1", Nodes: -1}, "r")
		refused(t, err, "quota_invalid")
		page, next, err := db.Quotas(ctx, lab.ID, "", 2)
		if err != nil || len(page) != 2 || next != "sku1" {
			t.Fatalf("%+v, %q, %v", page, next, err)
		}
		if page, next, err = db.Quotas(ctx, lab.ID, next, 2); err != nil || next != "" || len(page) != 1 || page[0].Nodes != 5 || page[0].GPUs != 40 {
			t.Errorf("%+v, %q, %v", page, next, err)
		}
	})
}

func TestTheBearerOfATenantsTokenIsAMemberAndEndsWithIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		d := tenancy.New(db)
		acme := must(d.CreateOrganisation(ctx, root, "acme"))(t)
		lab := must(d.CreateProject(ctx, root, acme.ID, "lab"))(t)
		give := func(name, hash string, role broker.Role, at broker.Place) error {
			return db.CreateOperatorToken(ctx, root, broker.OperatorToken{Name: name, Role: role, Place: at, ExpiresAt: clock.Now().Add(time.Hour)}, hash)
		}
		if err := give("ada", "hash-ada", broker.RoleProjectMember, lab.Place()); err != nil {
			t.Fatal(err)
		}
		// A token of the same name elsewhere is another one's, and stays.
		if err := give("elsewhere", "hash-elsewhere", broker.RoleViewer, broker.Place{}); err != nil {
			t.Fatal(err)
		}
		other := must(d.AddMember(ctx, root, lab.Place(), "elsewhere", broker.RoleProjectViewer))(t)
		page, _, err := db.Members(ctx, store.TenantPage{Within: lab.Place()})
		if err != nil || len(page) != 2 || page[0].Subject != "ada" && page[1].Subject != "ada" {
			t.Fatalf("%+v, %v", page, err)
		}
		if got := must(db.OperatorByHash(ctx, "hash-ada"))(t); got.Place != lab.Place() || got.Role != broker.RoleProjectMember {
			t.Errorf("%+v", got)
		}
		refused(t, give("bob", "hash-bob", broker.RoleProjectMember, broker.Place{OrganisationID: acme.ID, ProjectID: "prj-none"}), "project_not_found")
		hints := db.Hints(t.Context())
		for _, m := range page {
			must(d.EndMember(ctx, root, m.ID, "left"))(t)
		}
		if h := <-hints; h != (store.Hint{Kind: store.HintToken, ID: "ada"}) {
			t.Errorf("hint %+v", h)
		}
		if got := must(db.OperatorByHash(ctx, "hash-ada"))(t); got.RevokedAt.IsZero() {
			t.Error("the token of a member that has ended opens doors")
		}
		if got := must(db.OperatorByHash(ctx, "hash-elsewhere"))(t); !got.RevokedAt.IsZero() {
			t.Errorf("the end of member %s revoked a token of the platform", other.ID)
		}
		must(d.EndProject(ctx, root, lab.ID, "done"))(t)
		refused(t, give("late", "hash-late", broker.RoleProjectMember, lab.Place()), "project_ended")
	})
}
