package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

func (a *API) showTerminalPolicy(ctx context.Context, in *policyInput) (*api.TerminalPolicy, error) {
	if who := callerOf(ctx); !who.MaySee(in.Site) {
		return nil, siteForbidden(who, in.Site)
	}
	raw, err := a.c.DB.TerminalPolicy(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	p, err := broker.TerminalPolicyOf(raw)
	if err != nil {
		return nil, err
	}
	out := &api.TerminalPolicy{Site: in.Site, Policy: terminalRules(p), Default: raw == nil}
	rows, err := a.c.DB.ListAudit(ctx, store.AuditFilter{Action: "policy.terminal", Subject: "site/" + in.Site, Newest: true, Limit: 1})
	if err == nil && len(rows) == 1 {
		out.UpdatedAt, out.UpdatedBy = rows[0].At, rows[0].Actor
	}
	return out, err
}

// setTerminalPolicyInput is an api.TerminalPolicyPut in which omitted fields of the policy take the
// default.
type setTerminalPolicyInput struct {
	Body struct {
		Site   string                           `json:"site,omitempty" maxLength:"63"`
		Policy overlay[api.TerminalPolicyRules] `json:"policy"`
		Reason string                           `json:"reason,omitempty" maxLength:"500"`
	}
}

func (a *API) setTerminalPolicy(ctx context.Context, in *setTerminalPolicyInput) (*api.TerminalPolicy, error) {
	site := in.Body.Site
	if !siteForm.MatchString(site) {
		return nil, broker.Errorf(broker.Invalid, "terminal_policy_invalid",
			"cannot set terminal policy: site %q is not a valid site name (a-z, 0-9 and '-')", taskcatalog.Clean(site, 200))
	}
	if who := callerOf(ctx); !who.MaySee(site) {
		return nil, siteForbidden(who, site)
	}
	if err := a.checkSiteName(ctx, site); err != nil {
		return nil, err
	}
	rules, err := in.Body.Policy.over(terminalRules(broker.DefaultTerminalPolicy()))
	if err != nil {
		return nil, err
	}
	p := broker.TerminalPolicy{
		OpenRole: broker.Role(rules.OpenRole), AllowRoot: rules.AllowRoot, RootRole: broker.Role(rules.RootRole), AnyUser: rules.AnyUser,
		MaxSeconds: rules.MaxSeconds, IdleSeconds: rules.IdleSeconds, DetachSeconds: rules.DetachSeconds, RecordInput: rules.RecordInput,
		OnRecordingFailure: rules.OnRecordingFailure, RetentionDays: rules.RetentionDays, AllowTitle: rules.AllowTitle,
		AllowClipboard: rules.AllowClipboard,
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	raw, err := taskcatalog.Encode(p)
	if err != nil {
		return nil, err
	}
	if err := a.c.DB.SetTerminalPolicy(ctx, callerOf(ctx).actor(), site, raw, in.Body.Reason); err != nil {
		return nil, err
	}
	return a.showTerminalPolicy(ctx, &policyInput{Site: site})
}

func terminalRules(p broker.TerminalPolicy) api.TerminalPolicyRules {
	return api.TerminalPolicyRules{
		OpenRole: string(p.OpenRole), AllowRoot: p.AllowRoot, RootRole: string(p.RootRole), AnyUser: p.AnyUser,
		MaxSeconds: p.MaxSeconds, IdleSeconds: p.IdleSeconds, DetachSeconds: p.DetachSeconds, RecordInput: p.RecordInput,
		OnRecordingFailure: p.OnRecordingFailure, RetentionDays: p.RetentionDays, AllowTitle: p.AllowTitle,
		AllowClipboard: p.AllowClipboard,
	}
}
