package maassim_test

import (
	"net/url"
	"testing"

	"github.com/hostler/hostler/test/maassim"
)

// The call's parameters decide how disks are erased, else the region's settings.
func TestHowDisksAreErased(t *testing.T) {
	for _, row := range []struct {
		version, form, settings string
		want                    string // "-" none
	}{
		{"3.6", "", "", "-"},
		{"3.6", "erase=true", "", "secure"},
		{"3.6", "erase=true&secure_erase=false", "", "overwrite"},
		{"3.6", "erase=true&secure_erase=false&quick_erase=true", "", "quick"},
		{"3.6", "erase=true&quick_erase=true", "", "secure, or quick"},
		{"3.6", "quick_erase=true&secure_erase=false", "", "quick"},
		{"3.4", "quick_erase=true&secure_erase=false", "", "-"},
		{"3.4", "", "enable_disk_erasing_on_release", "secure"},
		{"3.6", "erase=true&secure_erase=true&quick_erase=false", "disk_erase_with_quick_erase", "secure"},
	} {
		r := &maassim.Region{Version: row.version}
		b := maassim.Box(1)
		id := r.Arrange(maassim.Arranged{Hostname: "c01", Hardware: b, Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", PowerOn: true})
		if row.settings != "" {
			r.Set(row.settings, true)
		}
		form, err := url.ParseQuery(row.form)
		if err != nil {
			t.Fatal(err)
		}
		send(t, r, r.APIKey(), "POST", "machines/"+id+"/?op=release", form)
		got := "-"
		for _, c := range r.History(id) {
			if c.What == "erase" {
				got = c.To
			}
		}
		if got != row.want {
			t.Errorf("%+v: it is erased %s", row, got)
		}
	}
}

// TokenKept keeps the token at a release, as no real region does, and changes nothing else.
func TestATokenThatIsKept(t *testing.T) {
	for _, kept := range []bool{false, true} {
		r := &maassim.Region{}
		id := r.Arrange(maassim.Arranged{Hostname: "c01", Hardware: maassim.Box(1), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", Token: true})
		if kept {
			r.Inject(maassim.Fault{Kind: maassim.TokenKept})
		}
		before, _ := r.Machine(id)
		send(t, r, r.APIKey(), "POST", "machines/"+id+"/?op=release", nil)
		after, _ := r.Machine(id)
		if after.Status != maassim.Ready || after.Owner != "" || (after.Token == before.Token) != kept || before.Token == "" {
			t.Errorf("kept %v: %+v, then %+v", kept, before, after)
		}
	}
}
