package identity

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// formField is the field that a file of any form has. Without it the form is the first.
type formField struct {
	Form int `json:"form"`
}

// decodeState decodes a file that another version of the agent may have written. A file of a newer
// form is refused without advice to remove it: the file is intact, and removing it would lose it.
// In a known form the fields added by a newer agent are ignored, and are lost once the file is
// written again. mend is the advice for a damaged file. Code: state_invalid.
func decodeState(name string, raw []byte, v any, mend string) error {
	var file formField
	err := taskcatalog.DecodeLoose(raw, &file)
	if form := max(file.Form, 1); err == nil && !release.State.Reads(form) {
		return stateError("cannot read %s: the file has form %d, and this agent reads %d to %d (run the agent version that wrote the file, or a newer one)", name, form, release.State.ReadsMin, release.State.ReadsMax)
	}
	if err == nil {
		err = taskcatalog.DecodeLoose(raw, v)
	}
	if err != nil {
		return stateError("cannot read %s: %v (%s)", name, err, mend)
	}
	return nil
}

// FormIn is the highest form of the identity's files in a state directory: the form of the state in
// a release's statement. A file without a form has the first form. A change that older agents
// cannot read raises the form, once this version is confirmed to stay.
func FormIn(dir string) (form int, err error) {
	form = 1
	for _, name := range []string{identityFile, rotationFile, pendingFile} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var file formField
		if err != nil {
			return 0, stateError("cannot read %s: %v", name, err)
		}
		// A newer form may hold more fields. A damaged file has no form: no version reads it, and
		// it must not block a switch to another version.
		if json.Unmarshal(raw, &file) == nil {
			form = max(form, file.Form)
		}
	}
	return form, nil
}
