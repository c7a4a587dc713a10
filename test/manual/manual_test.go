package manual

import (
	"slices"
	"testing"
)

var tree = command{
	path: "hostler", flags: map[string]bool{"--config": true},
	under: []command{
		{path: "hostler node", flags: map[string]bool{"--config": true}, under: []command{
			{path: "hostler node create", flags: map[string]bool{"--config": true, "--hostname": true}},
			{path: "hostler node list", flags: map[string]bool{"--config": true, "-q": false}},
		}},
	},
}

func TestACommandOrAFlagThatIsNotThereIsFound(t *testing.T) {
	for _, row := range []struct {
		page string
		want []string
	}{
		{"`hostler node create --hostname gpu-07`", nil},
		{"```\nbin/hostler --config F node list -q | wc -l      how many\n```", nil},
		{"```\nhostler node create|list --config F\n```", nil},
		{"`hostler` looks, and `hostler NOUN` too", nil},
		{"a `hostler node\ndeny X` over two lines", []string{`hostler node has no command "deny"`}},
		{"```\nhostler node create --hostname 'a -n b' $(hostler node deny)\n```", []string{`hostler node has no command "deny"`}},
		{"`hostler node deny X`", []string{`hostler node has no command "deny"`}},
		{"`hostler certificate deny`", []string{`hostler has no command "certificate"`}},
		{"```\nhostler node list|deny\n```", []string{`hostler node has no command "deny"`}},
		{"`hostler node list --hostname X`", []string{"hostler node list has no flag --hostname"}},
		{"```\nhostler node list && hostler node lost\n```", []string{`hostler node has no command "lost"`}},
		{"```\nhostler-broker serve --data-dir D && hostler node lost\n```", []string{`hostler node has no command "lost"`}},
		{"```\nhostler-broker serve --data-dir D & hostler node list --hostname X\n```", []string{"hostler node list has no flag --hostname"}},
		{"```\nhostler node list -- uname --hostname X\n```", nil},
		{"```\nhostler node list --hostname X -- uname --all\n```", []string{"hostler node list has no flag --hostname"}},
		{"```\nhostler node create \\\n  --host X\n```", []string{"hostler node create has no flag --host"}},
	} {
		var got []string
		for _, lines := range mentions(row.page, "hostler") {
			for _, line := range lines {
				got = append(got, faults(tree, line)...)
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%q: %q, want %q", row.page, got, row.want)
		}
	}
}
