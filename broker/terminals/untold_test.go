package terminals_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
)

// picky refuses to sign tasks of some sessions.
type picky struct {
	signer
	never string // prefix of the refused sessions' ids
}

func (p picky) SignTask(ctx context.Context, task taskcatalog.Task, n int64) ([]byte, string, error) {
	if strings.Contains(string(task.Params), p.never) {
		return nil, "", errors.New("the signer is away")
	}
	return p.signer.SignTask(ctx, task, n)
}

// Nodes that cannot be told of a session's end do not block other nodes, however many they are.
func TestThoseThatCannotBeToldKeepNobodyWaiting(t *testing.T) {
	each(t, func(w *world) {
		n, err := w.db.Node(ctx, nodeID)
		w.ok(err)
		end := func(id string) {
			_, err := w.db.CreateTerminalSession(ctx, broker.Actor{Name: "ada"}, broker.TerminalSession{ID: id, NodeID: n.ID, NodeEpoch: n.Epoch})
			w.ok(err)
			_, err = w.db.MoveTerminalSession(ctx, broker.Actor{Name: "ada"}, id, store.TerminalMove{To: broker.TerminalClosed, Code: "terminal_closed"})
			w.ok(err)
		}
		for i := range store.UntoldAtOnce + 6 {
			end(fmt.Sprintf("ts-aaaaaa%02d", i))
		}
		end("ts-bbbbbbbb")
		w.queue = taskqueue.New(taskqueue.Config{DB: w.db, Signer: picky{signer{w.ca}, "ts-aaaaaa"}, Rand: rand.Reader})
		w.replica("a.example:7442")
		w.eventually("it is told", func() bool { return len(w.tasks("terminal.close")) == 1 })
	})
}
