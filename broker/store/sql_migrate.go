package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema to the current version, each step in its own transaction. A schema of a
// newer broker is refused and left unchanged.
func migrate(ctx context.Context, db *sql.DB, d sqlkit.Dialect) error {
	steps, err := migrationSteps(d)
	if err != nil {
		return err
	}
	options := []goose.ProviderOption{
		goose.WithGoMigrations(steps...), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()),
	}
	kind := goose.DialectSQLite3
	if d.Name() == "postgres" {
		kind = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(kind, db, nil, options...)
	if err != nil {
		return err
	}
	newest := steps[len(steps)-1].Version
	has, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the schema's version: %w", err)
	}
	if has > newest {
		return broker.Errorf(broker.Refused, "schema_too_new",
			"cannot open store: its schema is version %d, and this broker supports versions up to %d (start the newer broker, or restore a backup)", has, newest)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("cannot migrate the schema to version %d: %w", newest, err)
	}
	return nil
}

// migrationSteps reads the migration files; NNNN_name.sql is version NNNN.
func migrationSteps(d sqlkit.Dialect) ([]*goose.Migration, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	steps := make([]*goose.Migration, 0, len(names))
	for _, name := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", name, err)
		}
		raw, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		statements := strings.ReplaceAll(string(raw), "{{identity}}", d.Identity())
		steps = append(steps, goose.NewGoMigration(version, &goose.GoFunc{
			RunTx: func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, statements)
				return err
			},
		}, nil))
	}
	return steps, nil
}
