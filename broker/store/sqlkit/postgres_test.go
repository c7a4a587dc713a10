package sqlkit_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

func TestErrorsOfPostgreSQLAreToldApart(t *testing.T) {
	server := func(code string) error {
		return fmt.Errorf("cannot write: %w", &pgconn.PgError{Code: code})
	}
	for name, c := range map[string]struct {
		err             error
		retryable, lost bool
	}{
		"serialization failure":    {err: server("40001"), retryable: true},
		"deadlock":                 {err: server("40P01"), retryable: true},
		"lost race of two inserts": {err: server("23505"), retryable: true},
		"server stops":             {err: server("57P01"), lost: true},
		"connection exception":     {err: server("08006"), lost: true},
		"too many connections":     {err: server("53300"), lost: true},
		"standby":                  {err: server("25006"), lost: true},
		"connection ended":         {err: fmt.Errorf("cannot read: %w", io.ErrUnexpectedEOF), lost: true},
		"syntax":                   {err: server("42601")},
		"statement canceled":       {err: server("57014")},
		"no row":                   {err: sql.ErrNoRows},
		"caller left":              {err: context.Canceled},
	} {
		if got := sqlkit.Retryable(c.err); got != c.retryable {
			t.Errorf("%s: retryable %v", name, got)
		}
		if got := sqlkit.Lost(c.err); got != c.lost {
			t.Errorf("%s: lost %v", name, got)
		}
	}
}
