package storetest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hostler/hostler/broker/store"
)

// template is the file that tests on SQLite get copies of: migrating the schema, with a commit for
// each step, takes longer than most tests.
var template = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "hostler-sqlite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	path := filepath.Join(dir, "hostler.db")
	db, err := store.Open(context.Background(), store.Options{URL: "sqlite:" + path})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// sqliteFile returns the path of a fresh file with the schema.
func sqliteFile(t testing.TB) string {
	t.Helper()
	raw, err := template()
	path := filepath.Join(t.TempDir(), "hostler.db")
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatalf("cannot make a database: %v", err)
	}
	return path
}
