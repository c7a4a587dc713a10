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

// formed is what a file of any form holds. One that names none is of the first.
type formed struct {
	Form int `json:"form"`
}

// decodeOwn decodes a file that another version of the agent may have written. One of a
// newer form is refused: it is whole, and what mends a damaged one would lose it. In a form
// that is known, what a newer agent has added is read over, and is gone once the file is
// written again. Code: state_invalid.
func decodeOwn(name string, raw []byte, v any, mend string) error {
	var file formed
	err := taskcatalog.DecodeLoose(raw, &file)
	if form := max(file.Form, 1); err == nil && !release.State.Reads(form) {
		return stateError("cannot read %s: it is of form %d, and this agent reads %d to %d (run the version that wrote it, or a newer one)", name, form, release.State.ReadsMin, release.State.ReadsMax)
	}
	if err == nil {
		err = taskcatalog.DecodeLoose(raw, v)
	}
	if err != nil {
		return stateError("cannot read %s: %v (%s)", name, err, mend)
	}
	return nil
}

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
		var file formed
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
