package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/terminal/logins"
	"github.com/hostler/hostler/taskcatalog"
)

// loginFile holds the login that End must end.
const loginFile = "login.json"

const maxLogin = 4096

func keep(dir string, l logins.Login) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, loginFile), raw, 0o600)
}

// End records the end of a session's login, after the session's process, and returns the login.
// Without a login, or if its end was recorded already, End does nothing.
func End(dir string, book logins.Book) (l logins.Login, was bool, err error) {
	name := filepath.Join(dir, loginFile)
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return l, false, nil
	}
	if err != nil {
		return l, false, fmt.Errorf("cannot end a login: %w", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxLogin))
	if err == nil {
		err = taskcatalog.DecodeStrict(raw, &l)
	}
	if err != nil {
		return l, false, fmt.Errorf("cannot end a login: %w", err)
	}
	return l, true, errors.Join(book.End(l), os.Remove(name))
}
