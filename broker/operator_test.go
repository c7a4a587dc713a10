package broker

import "testing"

func TestARoleCoversItselfAndTheLesserOnes(t *testing.T) {
	order := []Role{RoleViewer, RoleOperator, RolePlatformAdmin}
	for i, have := range order {
		for j, need := range order {
			if got := have.Covers(need); got != (i >= j) {
				t.Errorf("%s covers %s: %v", have, need, got)
			}
		}
	}
	if Role("root").Covers(RoleViewer) || Role("").Covers("") {
		t.Error("an unknown role covers something")
	}
}

func TestATokenBoundToSitesReachesNoOther(t *testing.T) {
	bound := OperatorToken{Sites: []string{"dc1"}}
	if !bound.MaySee("dc1") || bound.MaySee("dc2") || bound.MaySee("") {
		t.Error("the binding does not hold")
	}
	if !(OperatorToken{}).MaySee("dc2") {
		t.Error("an unbound token is kept out")
	}
	if (OperatorToken{Place: Place{OrganisationID: "org-1"}}).MaySee("dc2") {
		t.Error("a tenant's token sees a site")
	}
}

func TestRolesOfThePlatformAndOfTenantsAreTwoSets(t *testing.T) {
	platform := []Role{RoleViewer, RoleOperator, RolePlatformAdmin}
	tenants := []Role{RoleProjectViewer, RoleProjectMember, RoleProjectAdmin, RoleTenantAdmin}
	for i, have := range tenants {
		for j, need := range tenants {
			if got := have.Covers(need); got != (i >= j) {
				t.Errorf("%s covers %s: %v", have, need, got)
			}
		}
		for _, other := range platform {
			if have.Covers(other) || other.Covers(have) {
				t.Errorf("%s and %s include one another", have, other)
			}
		}
	}
	if RolePlatformAdmin.Covers("") || RolePlatformAdmin.Covers("root") || RoleTenantAdmin.Covers("") {
		t.Error("a role covers a role that does not exist")
	}
}

func TestARoleIsGivenOnlyAtAPlaceOfItsKind(t *testing.T) {
	organisation, project := Place{OrganisationID: "org-1"}, Place{OrganisationID: "org-1", ProjectID: "prj-1"}
	for _, row := range []struct {
		role Role
		at   Place
		may  bool
	}{
		{RoleViewer, Place{}, true},
		{RolePlatformAdmin, organisation, false},
		{RoleTenantAdmin, organisation, true},
		{RoleTenantAdmin, project, false},
		{RoleTenantAdmin, Place{}, false},
		{RoleProjectViewer, project, true},
		{RoleProjectMember, organisation, true},
		{RoleProjectAdmin, Place{}, false},
		{"root", project, false},
		{"", Place{}, false},
	} {
		if err := row.role.At(row.at); (err == nil) != row.may || err != nil && AsError(err).Code != "role_invalid" {
			t.Errorf("%s at %+v: %v", row.role, row.at, err)
		}
	}
}
