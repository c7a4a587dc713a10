package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/backup"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/operators"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/trust"
)

// DataDir is a broker's directory, held by this process alone.
type DataDir struct {
	path string
	lock *os.File
}

// OpenDataDir makes the directory if it is missing and takes its lock. The lock ends with the
// process, however the process ends. Codes: data_dir_unusable, data_dir_in_use, restore_unfinished.
func OpenDataDir(path string) (*DataDir, error) {
	d, err := LockDataDir(path)
	if err != nil {
		return nil, err
	}
	if err := backup.Unfinished(d.path); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// LockDataDir is OpenDataDir for the begin, or a new begin, of a restore.
func LockDataDir(path string) (*DataDir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, unusable(path, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, unusable(abs, err)
	}
	f, err := os.OpenFile(filepath.Join(abs, backup.LockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unusable(abs, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, broker.Errorf(broker.Refused, "data_dir_in_use",
			"cannot use data directory %s: another broker runs on it (stop it, or use another --data-dir)", abs)
	}
	// The pid is for people. On a full disk the write fails, which is ignored.
	_ = f.Truncate(0)
	_, _ = fmt.Fprintln(f, os.Getpid())
	return &DataDir{path: abs, lock: f}, nil
}

// Path is the absolute path of the directory.
func (d *DataDir) Path() string { return d.path }

// Close releases the lock of the directory.
func (d *DataDir) Close() error { return d.lock.Close() }

func unusable(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return broker.Errorf(broker.Unavailable, "disk_full",
			"cannot write data directory %s: the disk is full (make room and start again)", path)
	}
	return broker.Errorf(broker.Unavailable, "data_dir_unusable",
		"cannot use data directory %s: %v (use a directory that this user can write)", path, err)
}

func (d *DataDir) join(name string) string { return filepath.Join(d.path, name) }

// StoreURL is the URL of the data directory's store, unless a database is named.
func StoreURL(dataDir, database string) string {
	if database != "" {
		return database
	}
	return "sqlite:" + filepath.Join(dataDir, "hostler.db")
}

// MakeKeys makes the broker's keys, once. Codes: keys_exist, keys_unwritable,
// disk_full.
func (d *DataDir) MakeKeys(now time.Time, trustKeyURI string) error {
	err := trust.Make(d.join("keys"), trust.MakeOptions{Now: now, TrustKeyURI: trustKeyURI})
	if errors.Is(err, syscall.ENOSPC) || err != nil && strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		return unusable(d.path, syscall.ENOSPC)
	}
	return err
}

// ensureKeys makes the keys of a broker that starts for the first time. A broker with a PostgreSQL
// shares its keys with others and gets them from ca init.
func (d *DataDir) ensureKeys(c Config) error {
	if trust.Exists(d.join("keys")) || c.Database != "" {
		return nil
	}
	if _, err := os.Stat(d.join("hostler.db")); err == nil {
		return broker.Errorf(broker.Refused, "keys_missing",
			"cannot start: %s has a database and no keys, and nodes would not trust new keys (restore keys/ from your backup)", d.path)
	}
	return d.MakeKeys(c.Now(), "")
}

// ensureDir makes a directory that only the broker can read.
func (d *DataDir) ensureDir(name string) (string, error) {
	path := d.join(name)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", unusable(d.path, err)
	}
	return path, nil
}

const (
	relayKeyFile = "relay.key"
	relayKeySize = 32
)

// relayKey is the same after each start. With this key a relay tells nodes that the connections of
// the previous process are gone. A lost or truncated key is made anew, at the cost of some seconds
// for the nodes.
func (d *DataDir) relayKey() ([]byte, error) {
	key, err := os.ReadFile(d.join(relayKeyFile))
	if err == nil && len(key) == relayKeySize {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unusable(d.path, err)
	}
	key = make([]byte, relayKeySize)
	_, _ = rand.Read(key) // never fails
	if err := clientfile.WritePrivate(d.join(relayKeyFile), key); err != nil {
		return nil, unusable(d.path, err)
	}
	return key, nil
}

const (
	adminToken = "admin"
	tokenFile  = "admin.token"
)

// ensureAdminToken makes the first operator token. The secret is in the file before the store knows
// the token, so that the next start repairs a crash between the two. Once the store knows the
// token, the operator may remove the file.
func (d *DataDir) ensureAdminToken(
	ctx context.Context, db *store.DB, dir *operators.Directory, newSecret func() (operators.Secret, error),
) error {
	all, err := db.OperatorTokens(ctx)
	if err != nil || len(all) > 0 {
		return err
	}
	text, err := os.ReadFile(d.join(tokenFile))
	secret := operators.Secret(strings.TrimSpace(string(text)))
	if errors.Is(err, fs.ErrNotExist) {
		if secret, err = newSecret(); err != nil {
			return err
		}
		err = clientfile.WritePrivate(d.join(tokenFile), []byte(secret.Reveal()+"\n"))
	}
	if err != nil {
		return unusable(d.path, err)
	}
	_, err = dir.Register(ctx, broker.Actor{Name: "hostler-broker", Role: broker.RolePlatformAdmin},
		operators.NewToken{Name: adminToken, Role: broker.RolePlatformAdmin, TTL: operators.MaxTTL}, secret)
	if err != nil && broker.AsError(err).Code == "token_name_taken" {
		return nil // another replica was faster
	}
	return err
}
