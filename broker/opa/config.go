package opa

import (
	"crypto/x509"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/regular"
)

// Config says where the engine is.
type Config struct {
	URL       string        `yaml:"url"`        // https://HOST[:PORT]/v1/data/PATH; http:// on the loopback interface
	CAFile    string        `yaml:"ca_file"`    // certificates that the engine's chain ends in; empty: the system's
	TokenFile string        `yaml:"token_file"` // file with the bearer token, read at each request; empty: none
	Timeout   time.Duration `yaml:"timeout"`    // of a request; zero: DefaultTimeout
}

// DefaultTimeout is the time of a request.
const DefaultTimeout = 5 * time.Second

const (
	leastTimeout = 100 * time.Millisecond
	mostTimeout  = 30 * time.Second
	maxURL       = 1024
	maxCA        = 1 << 20
)

func invalid(format string, args ...any) error {
	return broker.Errorf(broker.Invalid, "config_invalid",
		"cannot ask the policy engine: "+format+" (see operations: opa: in the config)", args...)
}

// Check refuses a configuration that cannot work, or would send facts or a token in the clear. Code:
// config_invalid.
func (c *Config) Check() error {
	if c == nil {
		return nil
	}
	_, err := c.roots()
	if err != nil {
		return err
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil, len(c.URL) > maxURL, u.Host == "", u.User != nil, u.RawQuery != "" || u.ForceQuery, u.Fragment != "",
		u.Scheme != "https" && u.Scheme != "http":
		return invalid("url must be https://HOST[:PORT]/v1/data/PATH")
	case !strings.HasPrefix(u.Path, "/v1/data/") || strings.Contains(u.Path, "..") || strings.HasSuffix(u.Path, "/"):
		return invalid("the path of url must be /v1/data/ with the path of the document")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return invalid("http:// is for an engine on the loopback interface alone (use https://)")
	case c.Timeout != 0 && (c.Timeout < leastTimeout || c.Timeout > mostTimeout):
		return invalid("timeout must be between %s and %s", leastTimeout, mostTimeout)
	}
	if c.TokenFile != "" {
		_, err = c.token()
	}
	return err
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// roots are the certificates in which the engine's chain may end; nil: the system's.
func (c *Config) roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil
	}
	raw, err := regular.Read(c.CAFile, maxCA)
	if err != nil {
		return nil, invalid("ca_file cannot be read: %v", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, invalid("ca_file %s has no certificate", c.CAFile)
	}
	return pool, nil
}

const maxToken = 8 << 10

// token reads the token; empty: there is none.
func (c *Config) token() (string, error) {
	if c.TokenFile == "" {
		return "", nil
	}
	raw, err := regular.Read(c.TokenFile, maxToken)
	if err != nil {
		return "", invalid("token_file cannot be read: %v", err)
	}
	word := strings.TrimSpace(string(raw))
	if word == "" || strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", invalid("token_file %s must have one word and nothing else", c.TokenFile)
	}
	return word, nil
}
