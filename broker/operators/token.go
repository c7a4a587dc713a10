package operators

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const secretPrefix = "hso_"

var (
	secretForm = lazyregexp.New(`^hso_[A-Za-z0-9_-]{43}$`)
	nameForm   = lazyregexp.New(`^[a-z0-9][a-z0-9._@-]{0,63}$`)
	siteForm   = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`)
)

// How long a token lives.
const (
	DefaultTTL = 90 * 24 * time.Hour
	MaxTTL     = 365 * 24 * time.Hour
	MinTTL     = time.Minute
)

const maxSites = 64

// Secret is a bearer token as held by its bearer. Printing, logging and encoding redact the secret.
type Secret string

const redacted = "[operator token]"

// Reveal returns the secret itself, for the one caller that delivers it.
func (s Secret) Reveal() string { return string(s) }

func (Secret) String() string { return redacted }

// Format covers every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText covers JSON and YAML.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// NewSecret makes a secret.
func NewSecret(rand io.Reader) (Secret, error) {
	b := make([]byte, 32)
	if _, err := io.ReadFull(rand, b); err != nil {
		return "", fmt.Errorf("cannot create operator token: %w", err)
	}
	return Secret(secretPrefix + base64.RawURLEncoding.EncodeToString(b)), nil
}

// NewToken describes a token to create.
type NewToken struct {
	Name     string
	Role     broker.Role
	Sites    []string      // empty: all
	Place    broker.Place  // where the role holds
	MemberID string        // whose further token it is; empty: the bearer is, or becomes, the member of the token's name
	TTL      time.Duration // 0: DefaultTTL
}

// check returns the fault of a token to create. Codes: token_invalid, role_invalid.
func (n *NewToken) check() error {
	if n.TTL == 0 {
		n.TTL = DefaultTTL
	}
	switch {
	case !nameForm.MatchString(n.Name):
		return invalid("the name must be up to 64 of a-z, 0-9, '.', '_', '@' and '-'")
	case strings.HasPrefix(n.Name, "system"), strings.HasPrefix(n.Name, "hostler-broker"):
		return invalid("names that begin with system or hostler-broker are reserved for the broker")
	case n.TTL < MinTTL || n.TTL > MaxTTL:
		return invalid("its lifetime must be between %v and %v", MinTTL, MaxTTL)
	case len(n.Sites) > maxSites:
		return invalid("%d sites are named, at most %d", len(n.Sites), maxSites)
	case n.Role.OfTenants() && len(n.Sites) > 0:
		return invalid("a tenant's token cannot be bound to sites: tenants see no sites")
	case n.Role == broker.RolePlatformAdmin && len(n.Sites) > 0:
		return invalid("a platform_admin manages trust and tokens of all sites, so its token cannot be bound to sites")
	}
	for _, s := range n.Sites {
		if !siteForm.MatchString(s) {
			return invalid("site %q is not a valid site name (a-z, 0-9 and '-')", taskcatalog.Clean(s, 64))
		}
	}
	return n.Role.At(n.Place)
}

func invalid(format string, args ...any) error {
	return broker.Errorf(broker.Invalid, "token_invalid", "cannot create token: "+format, args...)
}
