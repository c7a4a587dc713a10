package broker

import (
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

func TestARegistryHasOneName(t *testing.T) {
	for _, c := range []struct {
		name  string
		plain bool
		want  string
	}{
		{"Registry.Example", false, "registry.example"},
		{"registry.example:443", false, "registry.example"},
		{"registry.example:443", true, "registry.example:443"}, // another registry than at port 80
		{"registry.example:80", true, "registry.example"},
		{"registry.example:80", false, "registry.example:80"},
		{"registry.example:5443", false, "registry.example:5443"},
		{"[::1]:443", false, "[::1]"},
		{"docker.io", false, "docker.io"},
		{"Index.Docker.io:443", false, "docker.io"},
		{"registry-1.docker.io", false, "docker.io"},
		{"registry-1.docker.io.evil.example", false, "registry-1.docker.io.evil.example"},
	} {
		if got := taskcatalog.RegistryName(c.name, c.plain); got != c.want {
			t.Errorf("%s is %s, want %s", c.name, got, c.want)
		}
		host, repository := RegistryOf(c.name+"/fleet/agent", c.plain)
		if host != c.want || repository != "fleet/agent" {
			t.Errorf("%s is %s of %s", c.name, repository, host)
		}
	}
}
