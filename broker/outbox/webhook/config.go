package webhook

import (
	"crypto/x509"
	"net/netip"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/regular"
	"github.com/hostler/hostler/taskcatalog"
)

// Config says which networks besides the public ones webhooks may reach, and which they may not.
type Config struct {
	Allow  []string `yaml:"allow"`   // networks such as 10.20.0.0/16, although they are not public
	Refuse []string `yaml:"refuse"`  // networks, although they are public
	CAFile string   `yaml:"ca_file"` // certificates that endpoints may have besides those that the system trusts
}

const (
	maxNetworks = 64
	maxCAFile   = 1 << 20
)

// Check refuses a configuration that cannot work. Code: config_invalid.
func (c Config) Check() error {
	_, err := c.networks()
	return err
}

// networks reads the networks.
func (c Config) networks() (g Guard, err error) {
	for _, list := range []struct {
		name string
		from []string
		to   *[]netip.Prefix
	}{{"allow", c.Allow, &g.Allow}, {"refuse", c.Refuse, &g.Refuse}} {
		if len(list.from) > maxNetworks {
			return g, invalid("%s has more than %d networks", list.name, maxNetworks)
		}
		for _, text := range list.from {
			p, err := netip.ParsePrefix(text)
			if err != nil || p != p.Masked() || p.Addr().Is4In6() {
				return g, invalid("%s has %q, which is no network (write it like 10.20.0.0/16)", list.name, taskcatalog.Clean(text, 60))
			}
			*list.to = append(*list.to, p)
		}
	}
	return g, nil
}

// roots are the certificates in which the chain of an endpoint may end.
func (c Config) roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil // the system's
	}
	raw, err := regular.Read(c.CAFile, maxCAFile)
	if err != nil {
		return nil, invalid("ca_file %s cannot be read", c.CAFile)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(raw) {
		return nil, invalid("ca_file %s has no certificate", c.CAFile)
	}
	return pool, nil
}

func invalid(why string, args ...any) error {
	e := broker.Errorf(broker.Invalid, "config_invalid", why, args...)
	e.Message = "cannot send webhooks: " + e.Message + " (see events: webhooks: in the config)"
	return e
}
