package pki

import (
	"crypto"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hostler/hostler/taskcatalog"
)

// openers maps a URI scheme to the place of a private key. An HSM or a cloud KMS needs one more
// line here, and configuration everywhere else.
var openers = map[string]func(*url.URL) (crypto.Signer, error){
	"file": openKeyFile,
}

// OpenSigner opens the private key that a URI names, for example file:/etc/hostler-broker/task.key.
// No error contains the whole URI: in some schemes (pkcs11:) the URI holds a PIN.
func OpenSigner(uri string) (crypto.Signer, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme == "" {
		return nil, refuse(CodeMalformed, "cannot open key: it is not named by a URI (write file:/path/to/key)")
	}
	open, ok := openers[u.Scheme]
	if !ok {
		known := slices.Sorted(maps.Keys(openers))
		return nil, refuse(CodeKeyScheme, "cannot open key at a %s: URI: this program opens %s: only", quote(u.Scheme),
			strings.Join(known, ":, "))
	}
	return open(u)
}

// FileURI returns the URI of a key kept in a file.
func FileURI(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

func openKeyFile(u *url.URL) (crypto.Signer, error) {
	if u.Host != "" || u.RawQuery != "" || u.Fragment != "" || !filepath.IsAbs(u.Path) {
		return nil, refuse(CodeMalformed, "cannot open key file: write file: and an absolute path")
	}
	// Non-blocking: opening a pipe must not wait for its writer.
	f, err := os.OpenFile(u.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, refuse(CodeKeyUnreadable, "cannot open key file %s: %v", quote(u.Path), err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, refuse(CodeKeyUnreadable, "cannot open key file %s: %v", quote(u.Path), err)
	case !info.Mode().IsRegular():
		return nil, refuse(CodeKeyUnreadable, "cannot open key file %s: it is no regular file", quote(u.Path))
	case info.Mode().Perm()&0o007 != 0:
		return nil, refuse(CodeKeyUnreadable, "cannot use key file %s: its mode %04o opens it to everyone (chmod 600)", quote(u.Path),
			info.Mode().Perm())
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err != nil {
		return nil, refuse(CodeKeyUnreadable, "cannot read key file %s: %v", quote(u.Path), err)
	}
	key, err := ParseKey(raw)
	if err != nil {
		return nil, refuse(taskcatalog.CodeOf(err, CodeMalformed), "cannot use key file %s: %v", quote(u.Path), err)
	}
	return key, nil
}
