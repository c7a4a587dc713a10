package trust

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

// KeyPlace is the place of the private part of one of a broker's keys.
type KeyPlace struct {
	Use  pki.KeyUse `json:"use"`
	ID   string     `json:"id"`
	File string     `json:"file,omitempty"` // in the ring's directory; empty: elsewhere
	URI  string     `json:"uri,omitempty"`  // of a key that is elsewhere or was removed
}

// Inventory lists the keys of the ring in dir and the fingerprints of its roots, newest first,
// without opening a key. Codes: keys_missing, keys_unreadable.
func Inventory(dir string) (keys []KeyPlace, roots []string, err error) {
	r, err := openKeyring(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, k := range r.doc.Keys {
		place := KeyPlace{Use: k.Use, ID: k.ID}
		name, file := strings.CutPrefix(k.URI, "file:")
		if _, err := os.Stat(filepath.Join(dir, filepath.Base(name))); file && !strings.HasPrefix(name, "/") && err == nil {
			place.File = filepath.Base(name)
		} else {
			place.URI = k.URI
		}
		keys = append(keys, place)
	}
	for _, k := range r.keys(pki.UseRoot) {
		chain, err := k.certs()
		if err != nil {
			return nil, nil, err
		}
		roots = append(roots, pki.Fingerprint(chain[len(chain)-1]))
	}
	if len(roots) == 0 {
		return nil, nil, broker.Errorf(broker.Refused, "keys_unreadable", "cannot use the keys in %s: the root is missing", dir)
	}
	return keys, roots, nil
}
