package store

import (
	"context"
	"database/sql"
	"sync"
)

// prepared is a pool that prepares each statement text once and keeps the statement. This package's
// texts are constants or built from few parts, so there are few statements.
type prepared struct {
	db    *sql.DB
	stmts sync.Map // text → *sql.Stmt
}

func (p *prepared) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := p.stmts.Load(query); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := p.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if other, loaded := p.stmts.LoadOrStore(query, s); loaded {
		_ = s.Close()
		return other.(*sql.Stmt), nil
	}
	return s, nil
}

func (p *prepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := p.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (p *prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := p.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (p *prepared) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := p.stmt(ctx, query)
	if err != nil {
		return p.db.QueryRowContext(ctx, query, args...) // returns the error of the query
	}
	return s.QueryRowContext(ctx, args...)
}
