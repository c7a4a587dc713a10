package sqlkit

import (
	"context"
	"database/sql"
	"sync"
)

// Prepared is a pool that prepares each statement text once and keeps the statement until the pool
// is closed. Use it for texts that are constants or built from few parts, so that there are few
// statements.
type Prepared struct {
	pool  *sql.DB
	stmts sync.Map // text → *sql.Stmt
}

// NewPrepared prepares statements on pool.
func NewPrepared(pool *sql.DB) *Prepared { return &Prepared{pool: pool} }

// Close closes the pool.
func (p *Prepared) Close() error { return p.pool.Close() }

func (p *Prepared) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := p.stmts.Load(query); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := p.pool.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if other, loaded := p.stmts.LoadOrStore(query, s); loaded {
		_ = s.Close()
		return other.(*sql.Stmt), nil
	}
	return s, nil
}

func (p *Prepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := p.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (p *Prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := p.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (p *Prepared) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := p.stmt(ctx, query)
	if err != nil {
		return p.pool.QueryRowContext(ctx, query, args...) // returns the error of the query
	}
	return s.QueryRowContext(ctx, args...)
}
