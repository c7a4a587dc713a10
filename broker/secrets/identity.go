package secrets

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/hostler/hostler/broker"
)

const identityFile = "identity.key"

// openIdentity reads the key that all secrets are encrypted to, or creates the key if there is
// none. A directory with secrets and without a key is refused: a new key would hide the loss of the
// old key.
func openIdentity(root *os.Root) (*age.HybridIdentity, error) {
	f, err := root.Open(identityFile)
	if errors.Is(err, fs.ErrNotExist) {
		return makeIdentity(root)
	}
	if err != nil {
		return nil, unreadable(identityFile, err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(identityFile, err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, broker.Errorf(broker.Refused, "secrets_key_open",
			"cannot use the secrets' %s: other users can read the file (chmod 600)", identityFile)
	}
	raw, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return nil, unreadable(identityFile, err)
	}
	id, err := age.ParseHybridIdentity(strings.TrimSpace(string(raw)))
	if err != nil {
		// The cause is left out: it may quote the key.
		return nil, broker.Errorf(broker.Refused, "secrets_key_invalid",
			"cannot use the secrets' %s: the file is not an age identity (restore it from a backup)", identityFile)
	}
	return id, nil
}

func makeIdentity(root *os.Root) (*age.HybridIdentity, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, unreadable(".", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			return nil, broker.Errorf(broker.Refused, "secrets_key_missing",
				"cannot open the secrets: the file %s, which decrypts them, is missing (restore it from a backup)", identityFile)
		}
	}
	id, err := age.GenerateHybridIdentity()
	if err != nil {
		return nil, err
	}
	if err := writeWhole(root, identityFile, []byte(id.String()+"\n"), (*os.Root).Rename); err != nil {
		return nil, err
	}
	return id, syncDir(root, ".")
}
