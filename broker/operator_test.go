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
}
