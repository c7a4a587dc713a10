package taskqueue_test

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"testing"

	"github.com/hostler/hostler/broker/deb/debtest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
)

// The fields that earlier agents read of a validation. They refuse unknown fields, so these types
// are frozen: a new param goes only to agents that know it.
type (
	firstValidation struct {
		TakeBaseline bool            `json:"take_baseline,omitempty"`
		Baseline     json.RawMessage `json:"baseline,omitempty"`
		Policy       *struct {
			KnownUsers     []string `json:"known_users,omitempty"`
			KnownUnits     []string `json:"known_units,omitempty"`
			KnownPorts     []string `json:"known_ports,omitempty"`
			KnownProcesses []string `json:"known_processes,omitempty"`
			Scratch        []string `json:"scratch,omitempty"`
		} `json:"policy,omitempty"`
	}
	validationBeforeUpdates struct {
		firstValidation
		ExpectedAgent []struct {
			Digest string                     `json:"digest"`
			Files  []taskcatalog.BaselineFile `json:"files"`
		} `json:"expected_agent,omitempty"`
	}
)

// An agent reports its known types: an older agent gets only fields that it reads, also if the
// package of its own version is published.
func TestAValidationIsAsTheAgentsReleaseKnowsIt(t *testing.T) {
	each(t, func(w *world) {
		key := pkitest.NewSigner(w.t)
		keys := release.Keys{key.ID: key.Key.Public()}
		w.queue = taskqueue.New(taskqueue.Config{DB: w.db, Signer: w, Rand: rand.Reader, ReleaseKeys: func() release.Keys { return keys }})
		for _, version := range []string{"1.0.0", "1.1.0"} {
			w.publish(version, debtest.Join(debtest.Parts(w.t, debtest.File("/usr/lib/systemd/system/hostler-agent.service", "[Service]"), debtest.File(taskcatalog.AgentProgram(version), version))...))
		}
		r := releasetest.Make(w.t, []byte("of its release"), releasetest.Statement("1.1.0"), key.Key)
		m, s, err := release.Verify(r.Manifest, r.Statement, r.Signatures, keys, r.Digest)
		w.ok(err)
		_, err = w.db.PublishRelease(ctx, operator, store.AgentRelease{
			Version: s.Version, Digest: r.Digest, Channel: "stable", Reference: "r.example/agent", Manifest: r.Manifest, Statement: r.Statement,
			Signatures: r.Signatures, KeyID: key.ID, StatementPart: m.Statement.Digest, LayerPart: m.Layer.Digest, LayerSize: m.Layer.Size,
		})
		w.ok(err)
		w.ok(w.db.SetCleanPolicy(ctx, operator, "lab", json.RawMessage(`{"known_users":["ops"],"gpu":{}}`), "test"))

		first := []string{"node.drain@1", "node.storage_cleanup@1", "node.validate_clean@1"}
		beforeUpdates := append(slices.Clone(first), "node.disk_erase@1", "node.gpu_scrub@1", "node.rotate_identity@1")
		for name, c := range map[string]struct {
			version string
			types   []string
			reads   any
			expects bool
		}{
			"first":        {"1.0.0", first, new(firstValidation), false},
			"first-signed": {"1.1.0", first, new(firstValidation), false},
			"middle":       {"1.0.0", beforeUpdates, new(validationBeforeUpdates), true},
			"middle-two":   {"1.1.0", beforeUpdates, new(validationBeforeUpdates), true},
			"new":          {"1.1.0", taskcatalog.IDs(), new(taskcatalog.ValidateCleanParams), true},
		} {
			n := w.active(name)
			storetest.Report(w.t, w.db, n.Peer.NodeID, store.NodeReport{AgentVersion: c.version, TaskTypes: c.types, Digest: name})
			w.enqueue(n, "node.validate_clean", "")
			params := w.opened(w.fetch(n)[0]).Params
			if err := taskcatalog.DecodeStrict(params, c.reads); err != nil {
				w.t.Errorf("%s: it refuses %s: %v", name, params, err)
			}
			var got taskcatalog.ValidateCleanParams
			w.ok(json.Unmarshal(params, &got))
			if expects := len(got.ExpectedAgent) > 0; expects != c.expects || got.Policy == nil || len(got.Policy.KnownUsers) != 1 {
				w.t.Errorf("%s: it is sent %s", name, params)
			}
		}
	})
}
