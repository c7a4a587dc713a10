package artifactsource

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

// account is the stored secret, bound to the record that it was set with. So a changed record sends
// the secret nowhere else.
type account struct {
	Source     string `json:"source"`
	Endpoint   string `json:"endpoint"`
	Region     string `json:"region"`
	KeyID      string `json:"key_id"`
	Generation string `json:"generation"`
	Secret     string `json:"secret"`
}

// Put stores an account's secret at its record's path.
func Put(ctx context.Context, keeper Keeper, c broker.SourceCredential, secret string) error {
	raw, err := json.Marshal(account{c.Source, c.Endpoint, c.Region, c.KeyID, c.Generation, secret})
	if err != nil {
		return err
	}
	defer clear(raw)
	return keeper.Put(ctx, c.VaultPath, raw)
}

// secretOf reads the secret of a record. Errors never repeat the secret. Codes:
// source_credential_missing, source_credential_unfinished, secret_unreadable, and those of the keeper.
func secretOf(ctx context.Context, keeper Keeper, c broker.SourceCredential) (string, error) {
	refuse := func(code, why string) (string, error) {
		return "", broker.Errorf(broker.Refused, code,
			"cannot use source credential %s: %s (set it again: hostler help source-credential set)", c.Name, why)
	}
	raw, err := keeper.Get(ctx, c.VaultPath)
	switch {
	case err != nil && broker.AsError(err).Kind == broker.NotFound:
		return refuse("source_credential_missing", "the secret is missing in the secret store")
	case err != nil:
		return "", err
	}
	defer clear(raw)
	var a account
	switch {
	case json.Unmarshal(raw, &a) != nil || a.Secret == "":
		return refuse("secret_unreadable", "its format is not that of hostler source-credential set")
	case a.Source != c.Source || a.Endpoint != c.Endpoint || a.Region != c.Region || a.KeyID != c.KeyID || a.Generation != c.Generation:
		return refuse("source_credential_unfinished",
			"the record and the stored secret do not belong together (the broker may have stopped between the two writes)")
	}
	return a.Secret, nil
}
