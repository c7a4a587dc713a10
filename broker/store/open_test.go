package store_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

func open(url string) error {
	db, err := store.Open(ctx, store.Options{URL: url})
	if err == nil {
		err = db.Close()
	}
	return err
}

func TestANewerSchemaIsRefusedAndLeftAlone(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			url := storetest.URL(t, engine)
			ok(t, open(url))
			driver, dsn := "pgx", url
			if engine == "sqlite" {
				driver, dsn = "sqlite", strings.TrimPrefix(url, "sqlite:")
			}
			raw, err := sql.Open(driver, dsn)
			ok(t, err)
			defer raw.Close() //nolint:errcheck // a test's
			_, err = raw.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, TRUE)`)
			ok(t, err)
			refused(t, open(url), "schema_too_new")
			_, err = raw.Exec(`DELETE FROM goose_db_version WHERE version_id = 9999`)
			ok(t, err)
			ok(t, open(url))
		})
	}
}

func TestAnEmptyPostgresIsBroughtUpByManyAtOnce(t *testing.T) {
	url := storetest.PostgresURL(t)
	errs := make(chan error)
	for range 4 {
		go func() { errs <- open(url) }()
	}
	for range 4 {
		ok(t, <-errs)
	}
}

func TestWhatCannotBeOpenedIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	ok(t, os.WriteFile(file, []byte(strings.Repeat("this is no database ", 300)), 0o600))
	for name, c := range map[string]struct{ url, code string }{
		"no scheme":            {"/var/lib/hostler.db", "bad_store_url"},
		"another scheme":       {"mysql://host/db", "bad_store_url"},
		"no path":              {"sqlite:", "bad_store_url"},
		"in memory":            {"sqlite::memory:", "bad_store_url"},
		"a folder that is not": {"sqlite:" + filepath.Join(dir, "none", "hostler.db"), "store_unavailable"},
		"a file for a folder":  {"sqlite:" + filepath.Join(file, "hostler.db"), "store_unavailable"},
		"a folder":             {"sqlite:" + dir, "store_unavailable"},
		"no database":          {"sqlite:" + file, "store_unavailable"},
		"a bad URL":            {"postgres://user:secret@[::1/db", "bad_store_url"},
		"nobody there":         {"postgres:///db?host=" + dir + "&user=hostler&password=secret", "store_unavailable"},
	} {
		err := open(c.url)
		if err == nil {
			t.Errorf("%s: it was opened", name)
			continue
		}
		refused(t, err, c.code)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error holds the password: %v", name, err)
		}
	}
}

func TestASecondBrokerOnOneFileIsRefused(t *testing.T) {
	url := storetest.URL(t, "sqlite")
	first, err := store.Open(ctx, store.Options{URL: url, Exclusive: true})
	ok(t, err)
	_, err = store.Open(ctx, store.Options{URL: url, Exclusive: true})
	refused(t, err, "data_dir_in_use")
	ok(t, open(url)) // a command beside the broker
	ok(t, first.Close())
	again, err := store.Open(ctx, store.Options{URL: url, Exclusive: true})
	ok(t, err)
	ok(t, again.Close())
}

func TestTheDatabaseIsForItsOwnerOnly(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "hostler.db") // the file does not exist yet
	db := storetest.Reopen(t, url, nil)
	newNode(t, db, "one")
	files, err := filepath.Glob(strings.TrimPrefix(url, "sqlite:") + "*")
	ok(t, err)
	if len(files) < 2 {
		t.Fatalf("only %v", files)
	}
	for _, f := range files {
		if info := must(os.Stat(f))(t); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", f, info.Mode().Perm())
		}
	}
}

func TestWithoutAClockTheDatabasesCounts(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			db := storetest.Open(t, engine, nil)
			if off := time.Since(db.Now()).Abs(); off > 5*time.Second {
				t.Fatalf("it is off by %v", off)
			}
		})
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			db := storetest.Open(t, engine, nil)
			n := newMember(t, db, "one")
			hints := db.Hints(ctx)
			ok(t, db.Close())
			if _, _, err := db.InsertTask(ctx, admin, newTask(db, n, taskcatalog.LaneConcurrent)); err == nil {
				t.Fatal("it was written")
			}
			if _, open := <-hints; open {
				t.Fatal("the hints go on")
			}
		})
	}
}
