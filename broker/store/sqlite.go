package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// sqliteEngine is a file with a single writer and a pool of readers.
type sqliteEngine struct {
	sqlkit.SQLite
	db      *DB
	path    string
	lock    *os.File // held while Exclusive
	commits *sqlkit.Writer
	read    *sqlkit.Prepared
}

const sqliteReaders = 4

func openSQLite(ctx context.Context, db *DB, path string, exclusive bool) (_ engine, err error) {
	if path == "" || path[0] == ':' {
		return nil, broker.Errorf(broker.Invalid, "bad_store_url", "cannot open store: sqlite: needs the path of a file")
	}
	if db.now == nil {
		db.now = time.Now
	}
	e := &sqliteEngine{db: db, path: path}
	defer func() {
		if err != nil {
			_ = e.close()
			err = sqliteError(err, path)
		}
	}()
	if exclusive {
		if e.lock, err = lockFile(path + ".lock"); err != nil {
			return nil, err
		}
	}
	// SQLite gives its side files (WAL, shared memory) the mode of the database file.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	write, err := sql.Open("sqlite", sqliteDSN(path, "synchronous(FULL)"))
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	e.commits = sqlkit.NewWriter(write)
	if err := migrate(ctx, write, e); err != nil {
		return nil, err
	}
	read, err := sql.Open("sqlite", sqliteDSN(path, "query_only(TRUE)"))
	if err != nil {
		return nil, err
	}
	read.SetMaxOpenConns(sqliteReaders)
	read.SetMaxIdleConns(sqliteReaders)
	e.read = sqlkit.NewPrepared(read)
	e.commits.Start()
	return e, nil
}

func sqliteDSN(path string, pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{
		"journal_mode(WAL)", "busy_timeout(10000)", "foreign_keys(TRUE)", "cache_size(-32768)", "temp_store(MEMORY)",
	}, pragmas...)}
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	return (&url.URL{Scheme: "file", Path: abs, RawQuery: q.Encode()}).String()
}

func (e *sqliteEngine) reader() sqlkit.Runner { return e.read }

func (e *sqliteEngine) write(ctx context.Context, fn func(context.Context, *tx) error) ([]Hint, error) {
	var hints []Hint
	err := e.commits.Do(ctx, func(ctx context.Context, r sqlkit.Runner) error {
		t := &tx{Runner: r, Dialect: e, now: e.db.Now(), clock: e.db.Now, judgeFile: e.db.judgeFile}
		err := fn(ctx, t)
		hints = t.hints
		return err
	})
	return hints, sqliteError(err, e.path)
}

func (e *sqliteEngine) tell([]Hint) {} // SQLite has no other replica

// lead runs f at once: the single process that has the file leads.
func (e *sqliteEngine) lead(ctx context.Context, f func(context.Context)) error {
	f(ctx)
	<-ctx.Done()
	return ctx.Err()
}

func (e *sqliteEngine) close() error {
	var errs []error
	if e.commits != nil {
		errs = append(errs, e.commits.Close())
	}
	if e.read != nil {
		errs = append(errs, e.read.Close())
	}
	if e.lock != nil {
		errs = append(errs, e.lock.Close())
	}
	return errors.Join(errs...)
}

// lockFile takes a lock that the kernel releases when the process ends in any way.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, broker.Errorf(broker.Refused, "data_dir_in_use",
			"cannot open store: another broker runs on %s (stop it, or use another --data-dir)", filepath.Dir(path))
	}
	return f, nil
}

// sqliteError gives a code to errors that an operator can fix.
func sqliteError(err error, path string) error {
	var own *broker.Error
	var r *refusal
	var se *sqlite.Error
	switch {
	case err == nil, errors.As(err, &own), errors.As(err, &r):
		return err
	case errors.As(err, &se) && se.Code() == sqlite3.SQLITE_IOERR_SHMSIZE: // no room for the shared memory file
		return broker.Errorf(broker.Unavailable, "disk_full",
			"cannot use database %s: the disk is full (free some space; no data was lost)", path)
	case errors.As(err, &se):
		switch se.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			return broker.Errorf(broker.Unavailable, "disk_full", "cannot write %s: the disk is full (free some space; no data was lost)",
				path)
		case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT,
			sqlite3.SQLITE_IOERR:
			return broker.Errorf(broker.Unavailable, "store_unavailable", "cannot use database %s: %v", path, se)
		}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return broker.Errorf(broker.Unavailable, "disk_full", "cannot write %s: the disk is full (free some space; no data was lost)", path)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EROFS),
		errors.Is(err, syscall.EISDIR):
		return broker.Errorf(broker.Unavailable, "store_unavailable", "cannot use database %s: %v", path, err)
	}
	return fmt.Errorf("database %s: %w", path, err)
}
