package adminapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// listRoots is for every caller: whoever keeps a client file must learn a new root before the old one
// goes. The rest of the bundle is the platform's.
func (a *API) listRoots(_ context.Context, in *PageInput) (*api.RootList, error) {
	bundle, _ := a.c.Trust.Bundle()
	out, now := &api.RootList{Items: []api.Root{}}, a.c.Now()
	for _, k := range bundle.Keys {
		if k.Use == pki.UseRoot && k.InForce(now) && now.Before(k.NotAfter) {
			out.Items = append(out.Items, api.Root{ID: k.ID, Certificate: k.Certificate, NotBefore: k.NotBefore, NotAfter: k.NotAfter})
		}
	}
	return out, cut(*in, &out.Items, &out.Next, func(r api.Root) string { return r.ID })
}

func (a *API) showTrust(ctx context.Context, _ *none) (*api.Trust, error) {
	bundle, raw := a.c.Trust.Bundle()
	out := &api.Trust{
		Version: bundle.Version, IssuedAt: bundle.IssuedAt, CASHA256: a.c.Trust.RootSHA256(),
		Bundle: string(raw), Keys: make([]api.TrustKey, len(bundle.Keys)),
	}
	now := a.c.Now()
	for i, k := range bundle.Keys {
		out.Keys[i] = api.TrustKey{
			Use: string(k.Use), ID: k.ID, PublicKey: k.PublicKey, Certificate: k.Certificate,
			NotBefore: k.NotBefore, NotAfter: k.NotAfter,
			InForce: k.InForce(now) && now.Before(k.NotAfter), // retired keys: out of force at once
		}
	}
	if r, open := a.c.Trust.Rotation(); open {
		out.Rotation = &api.Rotation{Use: string(r.Use), OldKeyID: r.OldID, NewKeyID: r.NewID, StartedAt: r.StartedAt}
		byKey, err := a.c.DB.OpenTasksByKey(ctx)
		if err != nil {
			return nil, err
		}
		if r.Use == pki.UseTask {
			out.Rotation.OpenTasks = int64(byKey[r.OldID])
		}
	}
	gaps, err := a.c.Trust.Gaps(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range gaps {
		out.Gaps = append(out.Gaps, api.KeyGap{Broker: g.Replica.Name, Lacks: g.Lacks})
	}
	behind, err := a.c.Trust.Stragglers(ctx)
	if err != nil {
		return nil, err
	}
	refusals, err := a.trustRefusals(ctx)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	for _, n := range behind {
		if who.MaySee(n.Site) {
			r := refusals[n.ID]
			out.Stragglers = append(out.Stragglers, api.Straggler{
				NodeID: n.ID, Hostname: n.Hostname, Status: string(n.Status),
				TrustVersion: n.TrustVersion, LastAgentContactAt: n.LastAgentContactAt,
				RefusedCode: r.Code, RefusedMessage: r.Message, NextAction: afterTrustRefusal(r.Code),
			})
		}
	}
	return out, nil
}

// trustRefusals returns the nodes that refuse the bundle in force, by id.
func (a *API) trustRefusals(ctx context.Context) (map[string]store.TrustRefusal, error) {
	list, err := a.c.DB.TrustRefusals(ctx, a.c.Trust.Version())
	out := make(map[string]store.TrustRefusal, len(list))
	for _, r := range list {
		out[r.NodeID] = r
	}
	return out, err
}

// afterTrustRefusal is the recommended action after a node's refusal of the trust bundle. The
// broker sends the bundle again each hour, and the node refuses again.
func afterTrustRefusal(code string) string {
	switch taskcatalog.Code(code) {
	case "":
		return ""
	case taskcatalog.CodeNotAllowed:
		return "set allow: to mutating or destructive in the agent's config on the node and restart the agent, or finish the rotation with --leave-behind"
	}
	return "read the task's message and repair the node, or finish the rotation with --leave-behind"
}

// trustRefused is an alert about nodes that refuse the trust bundle in force.
func (a *API) trustRefused(ctx context.Context, nodes []broker.Node) ([]api.Alert, error) {
	refusals, err := a.trustRefusals(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	var since time.Time
	for _, n := range nodes {
		r, refuses := refusals[n.ID]
		if !refuses {
			continue
		}
		names = append(names, n.Hostname+" ("+r.Code+")")
		if since.IsZero() || r.At.Before(since) {
			since = r.At
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	list := strings.Join(names[:min(len(names), onScreen)], ", ")
	if more := len(names) - onScreen; more > 0 {
		list += " and " + strconv.Itoa(more) + " more"
	}
	return []api.Alert{{
		Code: "trust_refused", Since: since,
		Message: "the trust bundle is refused by " + list +
			"; a rotation of keys cannot finish until these nodes accept the bundle (hostler trust show lists what to do)",
	}}, nil
}

// withRootsHeader adds the ids of the roots to every answer, so that an operator's client sees when
// they differ from its own.
func (a *API) withRootsHeader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderRoots, strings.Join(a.c.Trust.RootIDs(), ","))
		next.ServeHTTP(w, r)
	})
}

type rotateInput struct{ Body api.TrustRotate }

func (a *API) rotateTrust(ctx context.Context, in *rotateInput) (*api.Trust, error) {
	if _, err := a.c.Trust.Rotate(ctx, callerOf(ctx).actor(), pki.KeyUse(in.Body.Use), in.Body.Reason); err != nil {
		return nil, err
	}
	return a.showTrust(ctx, nil)
}

type finishInput struct{ Body api.TrustFinish }

func (a *API) finishTrust(ctx context.Context, in *finishInput) (*api.Trust, error) {
	if err := a.c.Trust.Finish(ctx, callerOf(ctx).actor(), in.Body.LeaveBehind, in.Body.Reason); err != nil {
		return nil, err
	}
	return a.showTrust(ctx, nil)
}

type releaseKeyInput struct{ Body api.ReleaseKeyPut }

func (a *API) addReleaseKey(ctx context.Context, in *releaseKeyInput) (*api.Trust, error) {
	pub, err := pki.ParsePublicKey([]byte(in.Body.PublicKey))
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, string(taskcatalog.CodeOf(err, pki.CodeMalformed)), "cannot add a release key: %v", err)
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "trust.bundle", "trust/release", "add a release key")
	if err != nil {
		return nil, err
	}
	if _, err := a.c.Trust.AddReleaseKey(ctx, callerOf(ctx).actor(), pub, reason); err != nil {
		return nil, err
	}
	return a.showTrust(ctx, nil)
}

type retireKeyInput struct {
	Key  string `path:"key" maxLength:"64"`
	Body api.ReasonBody
}

func (a *API) retireReleaseKey(ctx context.Context, in *retireKeyInput) (*api.Trust, error) {
	reason, err := a.reasonFor(ctx, in.Body.Reason, "trust.bundle", "trust/release", "retire a release key")
	if err != nil {
		return nil, err
	}
	if err := a.c.Trust.RetireReleaseKey(ctx, callerOf(ctx).actor(), in.Key, reason); err != nil {
		return nil, err
	}
	return a.showTrust(ctx, nil)
}
