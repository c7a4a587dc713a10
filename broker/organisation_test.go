package broker

import (
	"slices"
	"testing"
	"time"
)

func TestAPlaceCoversItselfAndWhatIsBelow(t *testing.T) {
	platform, acme := Place{}, Place{OrganisationID: "acme"}
	lab, other := Place{OrganisationID: "acme", ProjectID: "lab"}, Place{OrganisationID: "acme", ProjectID: "other"}
	foreign := Place{OrganisationID: "foreign", ProjectID: "lab"}
	for place, covered := range map[Place][]Place{
		platform: {platform, acme, lab, other, foreign},
		acme:     {acme, lab, other},
		lab:      {lab},
		foreign:  {foreign},
	} {
		reached := map[Place]bool{}
		for _, p := range covered {
			reached[p] = true
		}
		for _, p := range []Place{platform, acme, lab, other, foreign} {
			if got := place.Covers(p); got != reached[p] {
				t.Errorf("%+v covers %+v: %v", place, p, got)
			}
		}
	}
}

func TestNoNameOfATenantLooksLikeAnID(t *testing.T) {
	for name, good := range map[string]bool{
		"acme": true, "team-7": true, "7": true, "": false, "Acme": false, "a/b": false, "-a": false, "a\x1b": false,
		"org-1": false, "prj-1": false, "organisation": true,
	} {
		if err := CheckTenantName(name); (err == nil) != good || err != nil && AsError(err).Code != "name_invalid" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestIDsSortByTheMicrosecondInWhichTheyWereMade(t *testing.T) {
	at := time.Date(2026, 11, 28, 6, 0, 53, 999_998_000, time.UTC)
	ids := []string{"org-1a1f640bc00zzzzzzzzzz"} // of an earlier release, eight days before
	for i := range 1100 {
		ids = append(ids, NewTenantID(OrganisationPrefix, at.Add(time.Duration(i)*time.Microsecond)))
	}
	if !slices.IsSorted(ids) {
		t.Error("ids do not sort by time")
	}
}
