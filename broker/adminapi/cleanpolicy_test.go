package adminapi_test

import (
	"net/http"
	"testing"

	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestACleanPolicyIsASites(t *testing.T) {
	b := servertest.Start(t)
	want := taskcatalog.CleanPolicy{KnownUsers: []string{"backup"}, KnownPorts: []string{"tcp/9100"}, Scratch: []string{"/share*", "/data/scratch"}}
	set := servertest.Must[resource.CleanPolicy](t, b, http.MethodPut, "/clean-policy", resource.CleanPolicyPut{Site: "dc1", Policy: want, Reason: "node exporter"})
	if set.UpdatedBy != "admin" || set.UpdatedAt.IsZero() {
		t.Errorf("it was set by %q at %v", set.UpdatedBy, set.UpdatedAt)
	}
	got := servertest.Must[resource.CleanPolicy](t, b, http.MethodGet, "/clean-policy?site=dc1", nil)
	if len(got.Policy.Scratch) != 2 || got.Policy.KnownUsers[0] != "backup" {
		t.Errorf("it is %+v", got.Policy)
	}
	if other := servertest.Must[resource.CleanPolicy](t, b, http.MethodGet, "/clean-policy?site=dc2", nil); len(other.Policy.Scratch) != 0 {
		t.Errorf("another site has it too: %+v", other.Policy)
	}
	for name, p := range map[string]taskcatalog.CleanPolicy{
		"the root as scratch":       {Scratch: []string{"/"}},
		"everything as scratch":     {Scratch: []string{"/*"}},
		"the system as scratch":     {Scratch: []string{"/usr/share"}},
		"what a node would refuse":  {Scratch: []string{"/v*"}},
		"a way up as scratch":       {Scratch: []string{"/share/../etc"}},
		"a relative path":           {Scratch: []string{"share"}},
		"a port without a protocol": {KnownPorts: []string{"22"}},
		"a user with a newline":     {KnownUsers: []string{"a\nb"}},
		"an empty unit":             {KnownUnits: []string{""}},
	} {
		if a := b.Ask(t, b.Token, http.MethodPut, "/clean-policy", resource.CleanPolicyPut{Site: "dc1", Policy: p}); a.Code() != "clean_policy_invalid" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}
