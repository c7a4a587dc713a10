package terminals_test

import (
	"testing"

	"github.com/hostler/hostler/broker/terminals"
)

// A session with a command has no idle limit: a command that only writes needs no input.
func TestACommandIsNotIdle(t *testing.T) {
	each(t, func(w *world) {
		a := w.replica("a.example:7442")
		for _, command := range [][]string{nil, {"nvidia-smi", "-l"}} {
			id, _, err := a.service.Open(ctx, ada, terminals.Request{NodeID: nodeID, Username: "bob", Size: size, Command: command})
			w.ok(err)
			l := w.row(id).Limits
			if idle := l.Idle != 0; idle != (command == nil) || l.Max == 0 || l.Detach == 0 {
				t.Errorf("with %q it is %+v", command, l)
			}
		}
	})
}
