package broker

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/test/manual"
)

// undeclared lists what the declarations of a struct's fields leave out.
func undeclared(policy reflect.Type) (missing []string) {
	for _, k := range knobsOf(policy) {
		f := policy.FieldByIndex(k.field)
		_, has := f.Tag.Lookup("default")
		for what, there := range map[string]bool{
			"name": k.Name != "", "group": k.Group != "", "unit": k.Unit != "", "bounds": k.Bounds != "",
			"help": strings.HasSuffix(k.Help, "."), "default": has || k.typ.Kind() == reflect.Map,
			"maxLength": k.typ.Kind() != reflect.String || k.enum != nil || k.maxLength > 0,
		} {
			if !there {
				missing = append(missing, f.Name+": "+what)
			}
		}
	}
	slices.Sort(missing)
	return missing
}

func TestEveryKnobIsDeclared(t *testing.T) {
	for _, missing := range undeclared(reflect.TypeFor[Policy]()) {
		t.Errorf("%s is missing in its tags", missing)
	}
	if n := len(Knobs()); n < 40 {
		t.Errorf("%d knobs were found", n)
	}
	type group struct {
		Bare    int    `json:"bare"`
		Unbound string `json:"unbound" unit:"name" default:"" maxLength:"9" doc:"Help."`
		Whole   int    `json:"whole" unit:"nodes" default:"1" minimum:"1" maximum:"2" doc:"Help."`
		Switch  bool   `json:"switch" default:"true" doc:"Help."`
	}
	type policy struct {
		group `title:"Group"`
		Alone bool `json:"alone" default:"true" doc:"Help."`
	}
	want := []string{"Alone: group", "Bare: bounds", "Bare: default", "Bare: help", "Bare: unit", "Unbound: bounds"}
	if got := undeclared(reflect.TypeFor[policy]()); !slices.Equal(got, want) {
		t.Errorf("of a struct with gaps these are found: %q", got)
	}
}

// Each declared bound is held, and the refusal has the name, the value, the bounds and the unit.
func TestAKnobOutsideItsBoundsIsRefused(t *testing.T) {
	for _, k := range Knobs() {
		var values []any
		switch {
		case k.Name == "silent_reimages_at_once":
			values = []any{-1, k.max + 1} // 0, of an older profile, stands for the default
		case k.number:
			values = []any{k.min - 1, k.max + 1}
		case k.typ.Kind() == reflect.String:
			values = []any{"\x1b no value of any knob"}
		default:
			continue
		}
		for _, value := range values {
			p := NewProfile("id", "site", "p")
			field := reflect.ValueOf(&p.Policy).Elem().FieldByIndex(k.field)
			if k.typ.Kind() == reflect.Pointer {
				field.Set(reflect.ValueOf(new(value.(int))))
			} else {
				field.Set(reflect.ValueOf(value))
			}
			err := p.Check()
			if err == nil || AsError(err).Code != "profile_invalid" {
				t.Errorf("%s with the value %q: %v", k.Name, value, err)
				continue
			}
			said := []string{k.Name, k.Unit, k.Bounds}
			if k.number {
				said = append(said, fmt.Sprintf("is %d %s", value, k.Unit), fmt.Sprintf("%d to %d %s", k.min, k.max, k.Unit))
			}
			for _, text := range said {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
		}
	}
	k, _ := KnobNamed("distro_series")
	if k.Refusal(strings.Repeat("a", 200)) == "" {
		t.Error("an image may have any length")
	}
	k, _ = KnobNamed("site_bootstrap_bundle_ref")
	url := "https://u:hunter2@h/x@sha256:" + strings.Repeat("a", 64)
	if why := k.Refusal(url); why == "" || strings.Contains(why, "hunter2") {
		t.Errorf("a URL with credentials: %q", why)
	}
}

func TestAListOfAKnobIsBounded(t *testing.T) {
	many := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("h100.", i))
		}
		return all
	}
	k, _ := KnobNamed("reimage_skus")
	for says, list := range map[string][]string{
		"": many(64), "reimage_skus names 65 SKUs (allowed: 64 at most)": many(65),
		`reimage_skus names "a b" (allowed: ids of SKUs)`: {"h100", "a b"}, "reimage_skus names h100 twice": {"h100", "h100"},
	} {
		if got := k.Refusal(list); got != says {
			t.Errorf("%q, want %q", got, says)
		}
	}
	k, _ = KnobNamed("reimage_tenants")
	if got := k.Refusal([]string{"../x"}); !strings.Contains(got, "reimage_tenants") {
		t.Errorf("%q", got)
	}
}

// A profile of before turnovers is still held to the bounds of what it has.
func TestTheSilentReimagesOfAnOldProfileAreChecked(t *testing.T) {
	p := NewProfile("id", "site", "p")
	p.Policy.TurnoverRules = TurnoverRules{}
	p.Policy.SilentReimagesAtOnce = 501
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), "silent_reimages_at_once is 501") {
		t.Errorf("%v", err)
	}
}

func TestAKnobIsFoundByItsName(t *testing.T) {
	p := DefaultPolicy()
	k, is := KnobNamed("deploy_timeout_seconds")
	if !is || k.Of(p) != p.DeployTimeoutSeconds || k.Unit != "seconds" || k.Default != "5400" {
		t.Errorf("%+v", k)
	}
	if _, is := KnobNamed("none"); is {
		t.Error("a knob that nobody has declared is found")
	}
}

const policyPageHead = `# Policy

A profile of a site holds a policy. An onboarding, a reimage or a decommission copies the policy when it starts, so a change is for later runs. A node without
a MAAS site has the defaults.

` + "```" + `
hostler site profile show dc1 default
hostler site profile update dc1 default --set deploy_timeout_seconds=7200 --reason 'large images'
hostler site profile explain deploy_timeout_seconds
` + "```" + `

The names are those of the API and of ` + "`--set`" + `. [Turn nodes over](../how-to/turnover.md#what-the-policy-asks-for) and [set up a MAAS
site](../how-to/sites.md) say how to choose. The tables come from the declarations in ` + "`broker/policy.go`" + ` (` + "`go test ./broker -update`" + `).
`

const policyPageFoot = `
## Rules between knobs

- ` + "`overwrite_known_signatures`" + ` needs ` + "`initialize_extra_disks`" + `.
- ` + "`enrollment_token_ttl_seconds`" + ` is at least ` + "`deploy_timeout_seconds`" + ` and ` + "`agent_enrollment_timeout_seconds`" + ` together.
- With ` + "`require_hw_sync`" + `, ` + "`hardware_sync_health_timeout_seconds`" + ` is at least one and a half times ` + "`hardware_sync_interval`" + `.

A value outside these rules or the bounds is refused as ` + "`profile_invalid`" + ` or ` + "`invalid_request`" + `, and nothing changes.
`

// The documentation page lists each knob as it is declared.
func TestThePageHasTheKnobs(t *testing.T) {
	const page = "../docs/reference/policy.md"
	var want strings.Builder
	want.WriteString(policyPageHead)
	group := ""
	for _, k := range Knobs() {
		if k.Group != group {
			group = k.Group
			fmt.Fprintf(&want, "\n## %s\n\n| knob | unit | default | allowed | steers |\n| --- | --- | --- | --- | --- |\n", group)
		}
		def := "none"
		if k.Default != "" {
			def = "`" + k.Default + "`"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s | %s |\n", k.Name, k.Unit, def, k.Bounds, k.Help)
	}
	want.WriteString(policyPageFoot)
	manual.Hold(t, page, want.String(), *update, "go test ./broker -update")
}
