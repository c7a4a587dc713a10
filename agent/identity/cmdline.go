package identity

import (
	"fmt"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/pki"
)

// Cmdline is the kernel command line. Everyone on the machine can read it, which is acceptable for
// a token that is used once.
func Cmdline(m *machine.Machine) Source {
	return Source{Name: "the kernel command line", Read: func() (*Bootstrap, error) {
		raw, err := read(m, "/proc/cmdline", 64<<10)
		if err != nil {
			return nil, err
		}
		return parseCmdline(string(raw))
	}}
}

func parseCmdline(line string) (*Bootstrap, error) {
	b, seen := new(Bootstrap), map[string]bool{}
	for _, word := range strings.Fields(line) {
		key, value, _ := strings.Cut(word, "=")
		name, ours := strings.CutPrefix(key, "hostler.")
		if !ours {
			continue
		}
		value = strings.Trim(value, `"`)
		switch name {
		case "broker":
			b.Broker = value
		case "ca_sha256":
			b.CASHA256 = value
		case "token":
			b.Token = pki.EnrollToken(value)
		case "maas_system_id":
			b.MAASSystemID = value
		default:
			continue // other programs may use a longer prefix that begins with ours
		}
		if seen[name] {
			return nil, fmt.Errorf("hostler.%s= appears twice", name)
		}
		seen[name] = true
	}
	if b.Broker == "" {
		return nil, nil
	}
	return b, nil
}
