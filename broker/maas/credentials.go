package maas

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"unicode/utf8"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// Keeper stores secrets by their paths.
type Keeper interface {
	Get(ctx context.Context, path string) ([]byte, error)
	Put(ctx context.Context, path string, value []byte) error
}

// apiToken is a site's token as it is stored: with the address at which it was checked and the
// digest of the CA certificate, so that no change of the site's record sends the token elsewhere.
type apiToken struct {
	Token        string `json:"token"`
	APIBaseURL   string `json:"api_base_url"`
	CACertSHA256 string `json:"ca_cert_sha256,omitempty"` // hex; empty where somebody else wrote the secret
}

// PutToken stores a site's API key for the address at which it was checked.
func PutToken(ctx context.Context, keeper Keeper, s broker.Site, k Key) error {
	return put(ctx, keeper, s.APITokenPath, apiToken{k.text(), s.APIBaseURL, digest(s.CACert)})
}

// Token reads a site's API key. Codes: site_credentials_missing, site_credentials_moved, and the
// keeper's.
func Token(ctx context.Context, keeper Keeper, s broker.Site) (Key, error) {
	t, err := read[apiToken](ctx, keeper, s, s.APITokenPath, "MAAS token")
	if err != nil {
		return Key{}, err
	}
	if t.APIBaseURL != s.APIBaseURL || t.CACertSHA256 != "" && t.CACertSHA256 != digest(s.CACert) {
		return Key{}, broker.Errorf(broker.Refused, "site_credentials_moved",
			"cannot use the MAAS token of site %s: the token was checked at another address, or with another ca_cert (store it again: hostler site credentials %s --maas-token-file FILE)", s.Name, s.Name)
	}
	return ParseKey(t.Token)
}

// Power is the login of a BMC. Nothing prints it.
type Power struct{ login *power }

type power struct {
	User string `json:"user"`
	Pass string `json:"pass"`
}

// NewPower checks a login for BMCs. Code: power_credentials_invalid.
func NewPower(user, pass string) (Power, error) {
	for name, text := range map[string]string{"user": user, "password": pass} {
		if text == "" || len(text) > 256 || !utf8.ValidString(text) || taskcatalog.Clean(text, 2048) != text {
			return Power{}, broker.Errorf(broker.Invalid, "power_credentials_invalid",
				"cannot use the power credentials: the %s is empty, longer than 256 bytes or has control characters", name)
		}
	}
	return Power{&power{user, pass}}, nil
}

// Reveal returns user and password, for MAAS.
func (p Power) Reveal() (user, pass string) { return p.login.User, p.login.Pass }

// String keeps the login out of printed text.
func (p Power) String() string { return "[power credentials]" }

// GoString is String.
func (p Power) GoString() string { return p.String() }

// PutPower stores power credentials of a site or of an override.
func PutPower(ctx context.Context, keeper Keeper, path string, p Power) error {
	return put(ctx, keeper, path, p.login)
}

// PowerAt reads power credentials of a site or of an override. Codes: site_credentials_missing,
// power_credentials_invalid, and the keeper's.
func PowerAt(ctx context.Context, keeper Keeper, s broker.Site, path string) (Power, error) {
	v, err := read[power](ctx, keeper, s, path, "power credentials")
	if err != nil {
		return Power{}, err
	}
	return NewPower(v.User, v.Pass)
}

type deployPassword struct {
	Password string `json:"password"`
}

// PutDeployPassword stores the password of a site's deploy user.
func PutDeployPassword(ctx context.Context, keeper Keeper, s broker.Site, password string) error {
	return put(ctx, keeper, s.DeployPasswordPath, deployPassword{password})
}

// DeployPassword reads the password; "" where the deploy user has none. Codes:
// site_credentials_missing, and the keeper's.
func DeployPassword(ctx context.Context, keeper Keeper, s broker.Site) (string, error) {
	v, err := read[deployPassword](ctx, keeper, s, s.DeployPasswordPath, "deploy password")
	if err != nil && broker.AsError(err).Code == "site_credentials_missing" && s.DeployPasswordSetAt.IsZero() {
		return "", nil
	}
	return v.Password, err
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func put(ctx context.Context, keeper Keeper, path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	defer clear(raw)
	return keeper.Put(ctx, path, raw)
}

// read decodes a secret. An error never repeats any of the secret's content.
func read[T any](ctx context.Context, keeper Keeper, s broker.Site, path, what string) (v T, err error) {
	raw, err := keeper.Get(ctx, path)
	switch {
	case err != nil && broker.AsError(err).Kind == broker.NotFound:
		return v, broker.Errorf(broker.Refused, "site_credentials_missing",
			"cannot find the %s of site %s (set it: hostler help site credentials)", what, s.Name)
	case err != nil:
		return v, err
	}
	defer clear(raw)
	if json.Unmarshal(raw, &v) != nil {
		return v, broker.Errorf(broker.Refused, "secret_unreadable",
			"cannot read the %s of site %s: its format is not that of hostler site credentials (set it again)", what, s.Name)
	}
	return v, nil
}
