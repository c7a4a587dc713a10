package registry

import (
	"context"
	"encoding/json"

	"github.com/hostler/hostler/broker"
)

// Keeper stores secrets by path.
type Keeper interface {
	Get(ctx context.Context, path string) ([]byte, error)
	Put(ctx context.Context, path string, value []byte) error
}

// Account is the stored login of a registry, with the addresses where it was tried. So neither a
// changed record nor a changed registry sends the account anywhere else. An Account is redacted
// when printed.
type Account struct{ login *login }

type login struct {
	Registry   string `json:"registry"`   // of the token service: https://HOST[:PORT]
	Realm      string `json:"realm"`      // of its token service: https://HOST[:PORT]
	Generation string `json:"generation"` // of the record
	Username   string `json:"username"`
	Password   string `json:"password"`
}

// NewAccount joins a record with its password. Code: registry_credential_invalid.
func NewAccount(c broker.RegistryCredential, password string) (Account, error) {
	if err := c.Check(password); err != nil {
		return Account{}, err
	}
	return Account{&login{Registry: c.Base(), Generation: c.Generation, Username: c.Username, Password: password}}, nil
}

// String redacts the account in all printed forms.
func (a Account) String() string { return "[registry account]" }

// GoString is String.
func (a Account) GoString() string { return a.String() }

// Put stores an account at its record's path.
func Put(ctx context.Context, keeper Keeper, c broker.RegistryCredential, a Account) error {
	raw, err := json.Marshal(a.login)
	if err != nil {
		return err
	}
	defer clear(raw)
	return keeper.Put(ctx, c.VaultPath, raw)
}

// accountOf reads the account of a record. Errors never repeat the account. Codes:
// registry_credential_missing, registry_credential_moved, registry_credential_unfinished,
// registry_realm_changed, secret_unreadable, and those of the keeper.
func accountOf(ctx context.Context, keeper Keeper, c broker.RegistryCredential) (Account, error) {
	refuse := func(code, why string) (Account, error) {
		return Account{}, broker.Errorf(broker.Refused, code,
			"cannot use the credential of registry %s: %s (set it again: hostler help registry-credential set)", c.Registry, why)
	}
	raw, err := keeper.Get(ctx, c.VaultPath)
	switch {
	case err != nil && broker.AsError(err).Kind == broker.NotFound:
		return refuse("registry_credential_missing", "the account is missing in the secret store")
	case err != nil:
		return Account{}, err
	}
	defer clear(raw)
	var l login
	switch {
	case json.Unmarshal(raw, &l) != nil || l.Username == "" || l.Password == "":
		return refuse("secret_unreadable", "its format is not that of hostler registry-credential set")
	case l.Registry != c.Base():
		return refuse("registry_credential_moved", "the account was checked at another address than the record names")
	case l.Generation != c.Generation || l.Username != c.Username:
		return refuse("registry_credential_unfinished",
			"the record and the stored account do not belong together (the broker may have stopped between the two writes)")
	case l.Realm == "":
		return refuse("registry_realm_changed", "the account lacks the address of the token service where it was checked")
	}
	return Account{&l}, nil
}
