package broker

import "testing"

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
