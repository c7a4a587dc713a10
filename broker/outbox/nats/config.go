package nats

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/netip"
	"net/url"
	"strings"

	natsio "github.com/nats-io/nats.go"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/regular"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Config says where events are relayed to.
type Config struct {
	URL    string `yaml:"url"`     // tls://HOST[:PORT], several separated by commas; nats:// on the loopback interface
	Creds  string `yaml:"creds"`   // file with the user's JWT and key; empty: none
	CAFile string `yaml:"ca_file"` // certificates that the servers' chain ends in; empty: the system's
	Stream string `yaml:"stream"`
}

const (
	maxServers = 16
	maxCreds   = 64 << 10
)

var streamName = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)

// Name is the name of the relay in the store. Without a configuration it is empty.
func (c *Config) Name() string {
	if c == nil {
		return ""
	}
	return "nats/" + c.Stream
}

// Check refuses a configuration that cannot work or would send events in the clear. Code:
// config_invalid.
func (c *Config) Check() error {
	if c == nil {
		return nil
	}
	refuse := func(why string) error {
		return broker.Errorf(broker.Invalid, "config_invalid", "cannot relay events to NATS: %s (see events: nats: in the config)", why)
	}
	if !streamName.MatchString(c.Stream) {
		return refuse("stream must be the name of a stream: letters, digits, _ and -, at most 64")
	}
	servers := strings.Split(c.URL, ",")
	if len(servers) > maxServers {
		return refuse("url has more than 16 servers")
	}
	for _, server := range servers {
		u, err := url.Parse(strings.TrimSpace(server))
		switch {
		case err != nil || u.Hostname() == "" || u.Scheme != "tls" && u.Scheme != "nats" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
			return refuse("url must be tls://HOST:PORT")
		case u.User != nil:
			return refuse("url has a user or a password (put a file with credentials into creds)")
		case u.Scheme == "nats" && !loopback(u.Hostname()):
			return refuse("server " + taskcatalog.Clean(u.Host, 100) + " is not on the loopback interface, and needs TLS (write tls://)")
		}
	}
	return nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// options are the options of a connection. Code: nats_config_unusable.
func (c *Config) options() ([]natsio.Option, error) {
	refuse := func(what, file, why string) error {
		return broker.Errorf(broker.Unavailable, "nats_config_unusable", "cannot use %s %s of events: nats: in the config: %s", what, file, why)
	}
	options := []natsio.Option{
		natsio.Name("hostler-broker"), natsio.NoReconnect(), natsio.IgnoreDiscoveredServers(), natsio.SkipHostLookup(),
		natsio.Timeout(connectIn), natsio.NoEcho(), natsio.PingInterval(pingEvery), natsio.MaxPingsOutstanding(2),
	}
	if strings.Contains(c.URL, "tls://") {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if c.CAFile != "" {
			raw, err := regular.Read(c.CAFile, maxCreds)
			if err != nil {
				return nil, refuse("ca_file", c.CAFile, "it cannot be read")
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(raw) {
				return nil, refuse("ca_file", c.CAFile, "it has no certificate")
			}
		}
		options = append(options, natsio.Secure(config))
	}
	if c.Creds == "" {
		return options, nil
	}
	f, err := regular.Open(c.Creds)
	if err != nil {
		return nil, refuse("creds", c.Creds, "it cannot be read")
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || info.Mode().Perm()&0o027 != 0 {
		return nil, refuse("creds", c.Creds, "other users can read the file (chmod 640)")
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxCreds))
	if err != nil {
		return nil, refuse("creds", c.Creds, "it cannot be read")
	}
	return append(options, natsio.UserCredentialBytes(raw)), nil
}
