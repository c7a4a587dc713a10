package taskqueue_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// An operator names only the version of a release: the broker adds the source and the signatures.
func TestAnUpdateIsToldWhereItsReleaseIs(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		publish := func(version string) store.AgentRelease {
			w.t.Helper()
			r, err := w.db.PublishRelease(ctx, operator, store.AgentRelease{
				Version: version, Digest: release.Digest([]byte(version)), Channel: "stable", Reference: "registry:5000/agent", PlainHTTP: true,
				Manifest: []byte(version), Statement: []byte("s"), Signatures: []release.Signature{{Payload: []byte("p"), Signature: []byte("q")}},
			})
			w.ok(err)
			return r
		}
		want := publish("1.4.0")
		publish("1.3.0")
		publish("1.2.0")
		_, err := w.db.RevokeRelease(ctx, operator, "1.3.0", "eats disks")
		w.ok(err)
		_, err = w.db.SetReleaseFloor(ctx, operator, "1.3.0", "a hole")
		w.ok(err)

		w.enqueue(n, "node.self_update", `{"phase":"update","version":"1.4.0"}`)
		d := w.fetch(n)[0]
		var p taskcatalog.SelfUpdateParams
		w.ok(json.Unmarshal(w.opened(d).Params, &p))
		if p.Manifest == nil || p.Manifest.Digest != want.Digest || p.Manifest.Size != 5 || p.Source == nil || p.Source.Repository != "registry:5000/agent" || !p.Source.PlainHTTP || len(p.Signatures) != 1 || p.Floor != "1.3.0" {
			w.t.Errorf("the node is told %+v", p)
		}
		if p.Source.Credential != "" {
			w.t.Errorf("it is told to mint %s, and there is no account", p.Source.Credential)
		}
		for params, code := range map[string]string{
			`{"phase":"update","version":"9.9.9"}`:                       "agent_release_unknown",
			`{"phase":"update","version":"1.3.0"}`:                       "release_revoked",
			`{"phase":"update","version":"1.2.0"}`:                       "release_below_floor",
			`{"phase":"update"}`:                                         "bad_params",
			`{"phase":"update","version":"1.2.0","allow_rollback":true}`: "reason_missing",
			`{"phase":"update","version":"1.4.0","force":true}`:          "reason_missing",
			`{"phase":"update","version":"1.4.0","floor":"0.0.1"}`:       "broker_filled_params",
		} {
			_, _, err := w.queue.Enqueue(ctx, operator, taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.self_update", Params: json.RawMessage(params)})
			w.refused(err, code)
		}
		_, _, err = w.queue.Enqueue(ctx, operator, taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.self_update", Params: json.RawMessage(`{"phase":"update","version":"1.2.0","allow_rollback":true,"reason":"1.4 is worse"}`)})
		w.ok(err)
	})
}

// A rollback without a version leads to the version that the node has reported, and never to a
// version that nobody may get.
func TestARollbackLeadsToNothingThatWasRevoked(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		publish := func(version string) {
			w.t.Helper()
			_, err := w.db.PublishRelease(ctx, operator, store.AgentRelease{Version: version, Digest: release.Digest([]byte(version)), Channel: "stable", Reference: "registry:5000/agent", Manifest: []byte(version), Statement: []byte("s")})
			w.ok(err)
		}
		says := func(previous string) {
			w.t.Helper()
			w.clock.Advance(time.Second)
			storetest.Report(w.t, w.db, n.Peer.NodeID, store.NodeReport{AgentVersion: "1.4.0", TaskTypes: taskcatalog.IDs(), Digest: "of " + previous, Agent: &taskcatalog.AgentBuild{Commit: "c", Previous: previous}})
		}
		roll := func(params string) error {
			k, _, err := w.queue.Enqueue(ctx, operator, taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.self_update", Params: json.RawMessage(params)})
			if err != nil {
				return err
			}
			_, err = w.queue.Cancel(ctx, operator, k.ID, "only asked")
			return err
		}
		const blind = `{"phase":"rollback"}`
		publish("1.2.0")
		publish("1.3.0")
		w.ok(roll(blind)) // no revoked release could be the target
		_, err := w.db.RevokeRelease(ctx, operator, "1.3.0", "eats disks")
		w.ok(err)
		w.refused(roll(blind), "rollback_version_missing")
		says("1.3.0")
		w.refused(roll(blind), "release_revoked")
		w.refused(roll(`{"phase":"rollback","version":"1.3.0","allow_rollback":true,"force":true,"reason":"I insist"}`), "release_revoked")
		says("1.0.0-dpkg.1") // not a signed release
		w.ok(roll(blind))
		says("1.2.0")
		_, err = w.db.SetReleaseFloor(ctx, operator, "1.3.0", "a hole")
		w.ok(err)
		w.refused(roll(blind), "release_below_floor")
		w.ok(roll(`{"phase":"rollback","allow_rollback":true,"reason":"1.4 is worse"}`))

		w.enqueue(n, "node.self_update", `{"phase":"rollback","allow_rollback":true,"reason":"1.4 is worse"}`)
		var p taskcatalog.SelfUpdateParams
		w.ok(json.Unmarshal(w.opened(w.fetch(n)[0]).Params, &p))
		if p.Version != "1.2.0" {
			w.t.Errorf("the node is told to go back to %q", p.Version)
		}
	})
}

// If the broker has an account at a release's registry, a token is minted for the node; the node
// learns nothing of other registries.
func TestAnUpdateFromAPrivateRegistryIsToldToMint(t *testing.T) {
	each(t, func(w *world) {
		_, err := w.db.PutRegistryCredential(ctx, operator, broker.RegistryCredential{Registry: "registry:5000", Username: "pull"})
		w.ok(err)
		for version, reference := range map[string]string{"1.4.0": "Registry:5000/agent", "1.4.1": "registry/5000/agent", "1.4.2": "registry:5001/agent"} {
			_, err := w.db.PublishRelease(ctx, operator, store.AgentRelease{Version: version, Digest: release.Digest([]byte(version)), Channel: "stable", Reference: reference, Manifest: []byte(version), Statement: []byte("s")})
			w.ok(err)
			n := w.active(version)
			w.enqueue(n, "node.self_update", `{"phase":"stage","version":"`+version+`"}`)
			d := w.fetch(n)[0]
			var p taskcatalog.SelfUpdateParams
			w.ok(json.Unmarshal(w.opened(d).Params, &p))
			if mints := p.Source.Credential == taskcatalog.CredentialOCIPull; mints != (version == "1.4.0") || p.Source.Repository != reference {
				w.t.Errorf("the node is told %+v", p.Source)
			}
		}
	})
}
