package resolver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hostler/hostler/resolver-profiles"
)

// sweep removes versions no longer kept and the remains of a crash. Failures are retried the next
// time.
func (s *Store) sweep() {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }()
	d, err := root.Open(".")
	if err != nil {
		return
	}
	defer func() { _ = d.Close() }()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		version, isSet := strings.CutSuffix(name, fileSuffix)
		_, keep := s.kept(version)
		if strings.HasSuffix(name, tempSuffix) || isSet && !keep {
			_ = root.Remove(name)
		}
	}
}

func (s *Store) read(name string) ([]byte, error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, profiles.MaxSize+1))
	if err == nil && len(raw) > profiles.MaxSize {
		err = fmt.Errorf("%s is larger than %d bytes", name, profiles.MaxSize)
	}
	return raw, err
}

// write replaces a file in a single rename and returns once the change is durable.
func (s *Store) write(name string, raw []byte) error {
	fail := func(err error) error { return fmt.Errorf("cannot store the profiles: %w", err) }
	if err := s.at("write " + name); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fail(err)
	}
	// The directory's own entry must be durable, too.
	if err := syncDir(filepath.Dir(s.dir)); err != nil {
		return fail(err)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = root.Close() }()
	temp := name + tempSuffix
	f, err := root.OpenFile(temp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fail(err)
	}
	_, err = f.Write(raw)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fail(err), root.Remove(temp))
	}
	if err := s.at("rename " + name); err != nil {
		return err
	}
	if err := root.Rename(temp, name); err != nil {
		return fail(err)
	}
	if err := s.at("sync " + name); err != nil {
		return err
	}
	if err := syncDir(s.dir); err != nil {
		return fail(err)
	}
	return nil
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
