package store

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// postgresEngine is a pool, plus one connection that listens (postgres_notify.go) and, on the leading
// replica, one connection that holds the leader's lock (postgres_lead.go).
type postgresEngine struct {
	sqlkit.Postgres
	db     *DB
	config *pgx.ConnConfig
	pool   *sql.DB
	origin string // of this process's notifications
	outbox chan []Hint
	slots  chan struct{} // one slot for each writing transaction, in arrival order; sql.DB does not keep arrival order

	machine func() time.Time // this machine's clock
	clock   *sqlkit.Clock    // the server's

	orphanTold time.Time // when the log last reported a leader's lock that no live process holds; used by lead only

	cancel context.CancelFunc
	work   sync.WaitGroup
}

const (
	writeConns = 8 // concurrent transactions; more make PostgreSQL slower, not faster
	readConns  = 8
	maxRetries = 20
)

// connectPatience is how long connecting may take, unless the URL says.
const connectPatience = 5 * time.Second

func openPostgres(ctx context.Context, db *DB, url string, machine func() time.Time) (_ engine, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		// The parser's error may contain the password.
		return nil, broker.Errorf(broker.Invalid, "bad_store_url",
			"cannot open store: the PostgreSQL URL is not valid (give it as postgres://USER:PASSWORD@HOST:PORT/DATABASE)")
	}
	config.DialFunc = sqlkit.Dialer.DialContext
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectPatience
	}
	e := &postgresEngine{
		db: db, config: config, pool: stdlib.OpenDB(*config),
		origin: fmt.Sprintf("%016x", rand.Uint64()), outbox: make(chan []Hint, 1024), slots: make(chan struct{}, writeConns),
		machine: machine,
	}
	e.clock = sqlkit.NewClock(e.pool, machine)
	e.pool.SetMaxOpenConns(writeConns + readConns)
	e.pool.SetMaxIdleConns(writeConns + readConns)
	defer func() {
		if err != nil {
			_ = e.pool.Close()
		}
	}()
	if err := e.pool.PingContext(ctx); err != nil {
		return nil, broker.Errorf(broker.Unavailable, "store_unavailable", "cannot reach PostgreSQL at %s:%d: %v", config.Host, config.Port,
			err)
	}
	if err := e.keepsSessions(ctx); err != nil {
		return nil, err
	}
	if err := migrate(ctx, e.pool, e); err != nil {
		return nil, err
	}
	heard, err := e.listening(ctx)
	if err != nil {
		return nil, broker.Errorf(broker.Unavailable, "store_unavailable", "cannot listen for notifications of PostgreSQL at %s:%d: %v",
			config.Host, config.Port, err)
	}
	background, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	if db.now == nil {
		if err := e.clock.Read(ctx); err != nil {
			cancel()
			_ = heard.Close(ctx)
			return nil, err
		}
		db.now = e.clock.Now
		e.work.Go(func() { e.clock.Keep(background) })
	}
	e.work.Go(func() { e.send(background) })
	e.work.Go(func() { e.listen(background, heard) })
	return e, nil
}

func (e *postgresEngine) reader() sqlkit.Runner { return e.pool }

// write retries transactions that PostgreSQL asks to retry: serialization failures, deadlocks, and
// inserts that lost a race to an equal insert.
func (e *postgresEngine) write(ctx context.Context, fn func(context.Context, *tx) error) ([]Hint, error) {
	for try := 0; ; try++ {
		hints, err := e.once(ctx, fn)
		if err == nil || try == maxRetries || !sqlkit.Retryable(err) {
			return hints, err
		}
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(time.Millisecond) << min(try, 6)))):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (e *postgresEngine) once(ctx context.Context, fn func(context.Context, *tx) error) ([]Hint, error) {
	begin := e.pool.BeginTx
	if l := leaderOf(ctx); l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		begin = l.conn.BeginTx
	} else {
		select {
		case e.slots <- struct{}{}:
			defer func() { <-e.slots }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	native, err := begin(ctx, nil)
	if err != nil {
		return nil, err
	}
	t := &tx{Runner: native, Dialect: e, now: e.db.Now(), clock: e.db.Now, judgeFile: e.db.judgeFile}
	if err := fn(ctx, t); err != nil {
		_ = native.Rollback()
		return nil, err
	}
	if err := native.Commit(); err != nil {
		return nil, err
	}
	return t.hints, nil
}

func (e *postgresEngine) close() error {
	e.cancel()
	e.work.Wait()
	return e.pool.Close()
}
