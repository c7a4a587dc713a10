package secrets

import (
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// maxPath bounds a path, in bytes.
const maxPath = 200

var pathForm = lazyregexp.New(`^[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*(/[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*){0,7}$`)

// checkPath refuses an invalid path. A path is up to eight names of lower-case letters, digits,
// "_", "-" and inner dots, joined by slashes, and does not contain the file suffix: otherwise the
// file of one secret could be the directory of another. Code: secret_path_invalid.
func checkPath(path string) error {
	if len(path) > maxPath || !pathForm.MatchString(path) || strings.Contains(path, suffix) {
		return broker.Errorf(broker.Invalid, "secret_path_invalid", "cannot use secret path %q: use names like sites/dc1/maas",
			taskcatalog.Clean(path, maxPath))
	}
	return nil
}
