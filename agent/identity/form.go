package identity

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// FormIn is the highest form of a node's identity in a state directory: that of the state
// in a release's statement. A file that names none is of the first. Whoever changes what
// older agents read of one names the next, once it is known that this version stays.
func FormIn(dir string) (form int, err error) {
	form = 1
	for _, name := range []string{identityFile, rotationFile, pendingFile} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var file struct {
			Form int `json:"form"`
		}
		if err != nil {
			return 0, stateError("cannot read %s: %v", name, err)
		}
		// What is newer holds more. What is damaged has no form: no version reads it, and it
		// must keep nobody from going to another.
		if json.Unmarshal(raw, &file) == nil {
			form = max(form, file.Form)
		}
	}
	return form, nil
}
