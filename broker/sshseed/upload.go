package sshseed

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/pkg/sftp"

	"github.com/hostler/hostler/taskcatalog/hwsync"
)

// folder is in the deploy user's home, where SFTP and command lines begin.
const folder = ".hostler-hw-sync"

var names = []string{hwsync.Credentials, hwsync.Service, hwsync.Timer}

var errPlanted = errors.New("another file is in its place (remove " + folder + " in the deploy user's home)")

// upload puts the files into a new folder, which nobody else may enter before the first file is in
// it.
func (m *machine) upload(ctx context.Context, files hwsync.Files) error {
	err := m.files(ctx, func(c *sftp.Client) error {
		if err := remove(c); err != nil {
			return err
		}
		// An existing folder was put there just now: Mkdir fails on it.
		if err := c.Mkdir(folder); err != nil {
			return err
		}
		if err := c.Chmod(folder, 0o700); err != nil {
			return err
		}
		if st, err := c.Lstat(folder); err != nil || !st.IsDir() || st.Mode().Perm() != 0o700 {
			return errors.Join(errPlanted, err)
		}
		for _, one := range []struct {
			name    string
			content []byte
		}{{hwsync.Credentials, files.Credentials}, {hwsync.Service, files.Service}, {hwsync.Timer, files.Timer}} {
			if err := write(c, folder+"/"+one.name, one.content); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return failed(codeOf(err, UploadFailed), m.at, "cannot put files on the machine", err)
	}
	return nil
}

// write makes a new file, so that no link is followed, and fills the file when only its owner can
// read it.
func write(c *sftp.Client, name string, content []byte) (err error) {
	f, err := c.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Mode().Perm() != 0o600 {
		return errors.Join(errPlanted, err)
	}
	_, err = f.ReadFrom(bytes.NewReader(content))
	return err
}

// remove removes the remains of an earlier upload: our names and no others, and through no link.
func remove(c *sftp.Client) error {
	st, err := c.Lstat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !st.IsDir():
		return errPlanted
	}
	for _, name := range names {
		if err := c.Remove(folder + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(errPlanted, err)
		}
	}
	if err := c.RemoveDirectory(folder); err != nil {
		return errors.Join(errPlanted, err)
	}
	return nil
}

// forget removes the upload. A failure is left to the next upload: only root and the deploy user,
// who can become root, can read the files.
func (m *machine) forget(ctx context.Context) { _ = m.files(ctx, remove) }

// files runs do with an SFTP client, within the time limit of a step.
func (m *machine) files(ctx context.Context, do func(*sftp.Client) error) error {
	return within(ctx, m.conn, sending, func() error {
		c, err := sftp.NewClient(m.client)
		if err != nil {
			return err
		}
		defer c.Close()
		return do(c)
	})
}
