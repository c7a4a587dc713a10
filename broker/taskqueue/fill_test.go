package taskqueue_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
)

// A cleanup empties everything that a validation judges by the site's policy.
func TestACleanupEmptiesTheScratchOfTheSitesPolicy(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		sent := func(params string) []string {
			w.t.Helper()
			k := w.enqueue(n, "node.storage_cleanup", params)
			d := w.fetch(n)[0]
			var p taskcatalog.StorageCleanupParams
			w.ok(json.Unmarshal(w.opened(d).Params, &p))
			if string(k.Params) != params {
				w.t.Errorf("the operator's params are kept as %s", k.Params)
			}
			w.succeed(n, d, `{"files_removed":0,"bytes_removed":0,"failed":0,"trimmed_bytes":0}`)
			return p.Scratch
		}
		if got := sent(`{"scope":"local","scratch":["/z","/a"]}`); !slices.Equal(got, []string{"/z", "/a"}) {
			w.t.Errorf("without a policy the scratch is %q", got)
		}
		w.ok(w.db.SetCleanPolicy(ctx, operator, "elsewhere", json.RawMessage(`{"scratch":["/other"]}`), "test"))
		w.ok(w.db.SetCleanPolicy(ctx, operator, "lab", json.RawMessage(`{"scratch":["/share*","/nvme"]}`), "test"))
		if got := sent(`{"scope":"local"}`); !slices.Equal(got, []string{"/nvme", "/share*"}) {
			w.t.Errorf("with a policy the scratch is %q", got)
		}
		if got := sent(`{"scope":"local","scratch":["/share*","/a"]}`); !slices.Equal(got, []string{"/a", "/nvme", "/share*"}) {
			w.t.Errorf("with both the scratch is %q", got)
		}
		full := taskcatalog.StorageCleanupParams{Scope: "local"}
		for i := range 64 {
			full.Scratch = append(full.Scratch, fmt.Sprint("/s", i))
		}
		raw, err := json.Marshal(full)
		w.ok(err)
		_, _, err = w.queue.Enqueue(ctx, operator, taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.storage_cleanup", Params: raw})
		w.refused(err, "bad_params")
	})
}
