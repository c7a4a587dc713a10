package firstboot

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// The places with copies of user-data, below the machine's root. shadow- is the account tools'
// backup of shadow from before the password was locked.
var (
	trees = []string{"var/lib/cloud", "run/cloud-init"}
	files = []string{"var/log/cloud-init.log", "var/log/cloud-init-output.log", "etc/shadow-", "etc/hostler-agent/enroll.token"}
)

const (
	maxFile  = 64 << 20 // bytes
	maxFiles = 20_000
)

var (
	tokenForm = lazyregexp.New(`hsn_[A-Za-z0-9_-]{43}`)
	hashForm  = lazyregexp.New(`\$6\$rounds=[0-9]{1,9}\$hostler\.[./A-Za-z0-9]{8}\$[./A-Za-z0-9]{86}`)
)

// CloudInitRunning reports whether cloud-init is still running in this boot. Data it has not
// executed yet must not be overwritten.
func CloudInitRunning(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	if info, err := root.Lstat("run/cloud-init"); err != nil || !info.IsDir() {
		return false // not installed or not run
	}
	if _, err := root.Lstat("run/cloud-init/disabled"); err == nil {
		return false // turned off
	}
	_, err = root.Lstat("run/cloud-init/result.json")
	return errors.Is(err, fs.ErrNotExist)
}

// EraseSecrets overwrites the token with this hash (hex SHA-256) and every password hash of a
// deploy user, in all copies of the user-data below the directory dir, "/" in the field. It returns
// the number of files with a match. A failure on a file does not keep it from the other files. Call
// it only after Enrolled: an interrupted enrolling unit needs the token again.
func EraseSecrets(dir, tokenHash string) (erased int, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	// The record that the token is no longer needed must be durable before the token is overwritten.
	switch d, err := root.Open(strings.Trim(stateDir, "/")); {
	case err == nil:
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return 0, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return 0, err
	}
	var errs []error
	visit := func(name string) {
		n, err := eraseSecrets(root, name, tokenHash)
		if n {
			erased++
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	seen := 0
	for _, tree := range trees {
		err := fs.WalkDir(root.FS(), tree, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				if !errors.Is(err, fs.ErrNotExist) {
					errs = append(errs, err)
				}
				return nil
			}
			if seen++; seen > maxFiles {
				return errTooMany
			}
			if d.Type().IsRegular() {
				visit(name)
			}
			return nil
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range files {
		visit(name)
	}
	return erased, errors.Join(errs...)
}

var errTooMany = errors.New("cannot look for secrets in all of cloud-init's files: there are more than 20000")

func eraseSecrets(root *os.Root, name, tokenHash string) (found bool, err error) {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false, err
	}
	// A link, FIFO or device put there meanwhile is neither followed nor waited for, and then
	// refused.
	f, err := root.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) || now.Size() > maxFile {
		return false,
			errors.Join(err, &fs.PathError{
				Op: "overwrite", Path: path.Join("/", name),
				Err: errors.New("the file is too large, or was replaced since"),
			})
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return false, err
	}
	places := hashForm.FindAllIndex(text, -1)
	for _, at := range tokenForm.FindAllIndex(text, -1) {
		if pki.HashToken(string(text[at[0]:at[1]])) == tokenHash {
			places = append(places, at)
		}
	}
	for _, at := range places {
		if _, err := f.WriteAt(bytes.Repeat([]byte("x"), at[1]-at[0]), int64(at[0])); err != nil {
			return found, err
		}
		found = true
	}
	if found {
		err = f.Sync()
	}
	return found, err
}
