package trust

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
)

// rotatable are the uses with keys that a broker generates and can replace.
var rotatable = []pki.KeyUse{pki.UseTask, pki.UseTrust, pki.UseStatement, pki.UseRoot}

// Rotation is an unfinished replacement of a key.
type Rotation struct {
	Use       pki.KeyUse // root: root and issuing CA
	OldID     string
	NewID     string
	Version   int64 // of the bundle that nodes must confirm
	StartedAt time.Time
}

// Rotation returns the unfinished rotation, if any. There is at most one at a time.
func (a *Authority) Rotation() (Rotation, bool) {
	b := a.current.Load().bundle
	for _, use := range rotatable {
		if keys := live(b, use, a.o.Now()); len(keys) > 1 {
			return Rotation{
				Use: use, OldID: keys[0].ID, NewID: keys[len(keys)-1].ID,
				Version: b.Version, StartedAt: b.IssuedAt,
			}, true
		}
	}
	return Rotation{}, false
}

// Rotate begins to replace the key of a use with a new key. Codes: key_use_unknown, rotation_open,
// keys_unwritable; key_unreadable if the trust key cannot be opened.
func (a *Authority) Rotate(ctx context.Context, actor broker.Actor, use pki.KeyUse, reason string) (Rotation, error) {
	if !slices.Contains(rotatable, use) {
		return Rotation{}, broker.Errorf(broker.Invalid, "key_use_unknown", "cannot rotate %.40q: name task, trust, statement or root", use)
	}
	if err := a.Refresh(ctx); err != nil {
		return Rotation{}, err
	}
	if r, open := a.Rotation(); open {
		return Rotation{}, broker.Errorf(broker.Refused, "rotation_open",
			"cannot rotate the %s key: the rotation of the %s key from %s to %s is not finished (see hostler trust show)", use, r.Use,
			r.OldID, r.NewID)
	}
	k, err := a.prepare(use)
	if err != nil {
		return Rotation{}, err
	}
	entry, err := k.bundleKey()
	if err != nil {
		return Rotation{}, err
	}
	next, err := a.next(ctx)
	if err != nil {
		return Rotation{}, err
	}
	next.Keys = append(next.Keys, entry)
	if err := a.publish(ctx, actor, next, fmt.Sprintf("rotate %s: %s", use, reason)); err != nil {
		return Rotation{}, err
	}
	r, _ := a.Rotation()
	return r, nil
}

// prepare returns the joining key: the key that an interrupted rotation left in the ring, or a new
// key.
func (a *Authority) prepare(use pki.KeyUse) (ringKey, error) {
	keys := live(a.current.Load().bundle, use, a.o.Now())
	if k := a.ring.keys(use)[0]; k.ID != keys[len(keys)-1].ID {
		return k, nil
	}
	if use == pki.UseRoot {
		authority, err := a.ring.newAuthority(a.o.Now())
		if err != nil {
			return ringKey{}, err
		}
		return authority[0], a.ring.add(authority...)
	}
	k, err := a.ring.newKey(use, "", a.o.Now())
	if err != nil {
		return ringKey{}, err
	}
	return k, a.ring.add(k)
}

// Finish ends the rotation: the old key leaves the bundle and every broker. leaveBehind names nodes
// that have not confirmed; these nodes will need a new enrolment. Codes: rotation_none,
// replica_lacks_keys, nodes_not_confirmed, key_in_use, node_not_found.
func (a *Authority) Finish(ctx context.Context, actor broker.Actor, leaveBehind []string, reason string) error {
	if err := a.Refresh(ctx); err != nil {
		return err
	}
	r, open := a.Rotation()
	if !open {
		return broker.Errorf(broker.Refused, "rotation_none", "cannot finish a rotation: no rotation is open")
	}
	if err := a.checkGaps(ctx); err != nil {
		return err
	}
	if err := a.checkConfirmed(ctx, leaveBehind); err != nil {
		return err
	}
	if r.Use == pki.UseTask {
		open, err := a.o.DB.OpenTasksByKey(ctx)
		if err != nil {
			return err
		}
		if n := open[r.OldID]; n > 0 {
			return broker.Errorf(broker.Refused, "key_in_use",
				"cannot retire task key %s: %d open tasks carry its signature (wait for them, or cancel them)", r.OldID, n)
		}
	}
	next, err := a.next(ctx)
	if err != nil {
		return err
	}
	if r.Use == pki.UseStatement {
		for i := range next.Keys {
			if next.Keys[i].ID == r.OldID {
				next.Keys[i].NotAfter = a.o.Now().UTC()
			}
		}
	} else {
		next.Keys = slices.DeleteFunc(next.Keys, func(k pki.BundleKey) bool { return k.Use == r.Use && k.ID == r.OldID })
	}
	why := fmt.Sprintf("finish rotation of %s: %s", r.Use, reason)
	if len(leaveBehind) > 0 {
		why += "; left behind: " + strings.Join(leaveBehind, " ")
	}
	return a.publish(ctx, actor, next, why)
}

// checkConfirmed refuses unless leaveBehind names every straggler.
func (a *Authority) checkConfirmed(ctx context.Context, leaveBehind []string) error {
	stragglers, err := a.Stragglers(ctx)
	if err != nil {
		return err
	}
	var unnamed []string
	for _, n := range stragglers {
		if !slices.Contains(leaveBehind, n.ID) {
			unnamed = append(unnamed, fmt.Sprintf("%s (%s)", n.ID, n.Hostname))
		}
	}
	if len(unnamed) > 0 {
		const most = 10
		list := strings.Join(unnamed[:min(most, len(unnamed))], ", ")
		if len(unnamed) > most {
			list += fmt.Sprintf(" and %d more", len(unnamed)-most)
		}
		return broker.Errorf(broker.Refused, "nodes_not_confirmed",
			"cannot finish the rotation: not confirmed by %s (wait for them, or name each one to leave it behind)", list)
	}
	for _, id := range leaveBehind {
		if _, err := a.o.DB.Node(ctx, id); err != nil {
			return err // an id without a node is a typing error
		}
	}
	return nil
}

// Stragglers returns the nodes that have not confirmed the bundle in force. In a rotation of the
// root, they include the nodes that could not connect without the old root.
func (a *Authority) Stragglers(ctx context.Context) ([]broker.Node, error) {
	out, err := a.o.DB.TrustStragglers(ctx, a.Version())
	if err != nil {
		return nil, err
	}
	r, open := a.Rotation()
	if !open || r.Use != pki.UseRoot {
		return out, nil
	}
	nodes, _, err := a.o.DB.ListNodes(ctx, store.NodeFilter{})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if slices.ContainsFunc(out, func(s broker.Node) bool { return s.ID == n.ID }) {
			continue
		}
		holds, err := a.holdsNewCertificate(ctx, n, r.StartedAt)
		if err != nil {
			return nil, err
		}
		if !holds {
			out = append(out, n)
		}
	}
	return out, nil
}

// holdsNewCertificate reports whether a node got a certificate since the rotation began; all such
// certificates are by the new CA. A node that has not enrolled has no certificate, and its
// user-data pins the old root.
func (a *Authority) holdsNewCertificate(ctx context.Context, n broker.Node, since time.Time) (bool, error) {
	certs, err := a.o.DB.Certificates(ctx, n.ID)
	if err != nil {
		return false, err
	}
	for _, c := range certs {
		if c.Epoch == n.Epoch && !c.IssuedAt.Before(since) {
			return true, nil
		}
	}
	return false, nil
}

// next returns a copy of the bundle in force, to be changed. After a restore of the database, the
// copy's version is higher than any version issued since the backup.
func (a *Authority) next(ctx context.Context) (pki.TrustBundle, error) {
	restore, err := a.o.DB.LastRestore(ctx)
	b := a.current.Load().bundle
	return pki.TrustBundle{Version: max(b.Version+1, restore.TrustFloor), IssuedAt: a.o.Now().UTC(), Keys: slices.Clone(b.Keys)}, err
}

// publish signs a bundle with each trust key of the previous bundle and of its own, verifies that a
// node would accept the bundle, and puts it in force.
func (a *Authority) publish(ctx context.Context, actor broker.Actor, next pki.TrustBundle, reason string) error {
	before := a.current.Load().bundle
	var signers []pki.Signer
	seen := map[string]bool{}
	for _, c := range append(live(before, pki.UseTrust, a.o.Now()), live(&next, pki.UseTrust, a.o.Now())...) {
		if seen[c.ID] {
			continue
		}
		seen[c.ID] = true
		k, ok := a.ring.find(pki.UseTrust, c.ID)
		if !ok {
			return broker.Errorf(broker.Unavailable, "key_mismatch",
				"cannot sign trust bundle version %d: this broker does not have trust key %s (give every replica the same keys)",
				next.Version, c.ID)
		}
		s, err := a.ring.signer(k)
		if err != nil {
			return err
		}
		signers = append(signers, s)
	}
	raw, err := pki.SignBundle(next, signers...)
	if err != nil {
		return err
	}
	if _, err := before.Accept(raw, a.o.Now()); err != nil {
		return err
	}
	if err := a.o.DB.SaveBundle(ctx, actor, next.Version, raw, reason); err != nil {
		return err
	}
	if err := a.Refresh(ctx); err != nil {
		return err
	}
	if a.o.Changed != nil {
		a.o.Changed() // Run may have noticed first and not have finished with the bundle
	}
	return nil
}
