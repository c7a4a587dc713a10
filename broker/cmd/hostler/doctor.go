package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

// finding is one line of doctor's report.
type finding struct {
	Check  string `json:"check"`
	Result string `json:"result"` // ok, warn or fail
	Detail string `json:"detail"`
}

// expiryWarning is how early doctor warns of an expiry.
const expiryWarning = 14 * 24 * time.Hour

func doctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "check the connection to the broker, and what the broker needs", Args: exactly(),
		Long: `Check in this order: the client file, the token, the connection and the certificate,
your role at the broker, both clocks, what the broker reports about itself, and
whether the terminal relay answers at the address that nodes are given. Then check
everything that the broker needs and that expires, with the command that renews it,
and the MAAS and the key of each site that you may use. The command changes nothing.
The exit status is 1 if a check failed.`,
		Example: "  hostler doctor",
		RunE: func(c *cobra.Command, _ []string) error {
			findings := a.examine(c.Context())
			bad := 0
			rows, names := [][]string{}, []string{}
			for _, f := range findings {
				rows = append(rows, []string{f.Check, f.Result, f.Detail})
				if f.Result == "fail" {
					bad++
					names = append(names, f.Check)
				}
			}
			err := a.show(findings, names, func(p *render.Page) { p.Table(render.Kept("CHECK", "RESULT", "DETAIL"), rows) })
			if err == nil && bad > 0 {
				err = broker.Errorf(broker.Internal, "checks_failed", "%d of %d checks failed (see %s)", bad, len(findings),
					strings.Join(names, ", "))
			}
			return err
		},
	}
}

// examine runs the checks in order. If a check fails on which the others depend, examine stops.
func (a *app) examine(ctx context.Context) []finding {
	var found []finding
	say := func(check, result, format string, args ...any) {
		found = append(found, finding{check, result, fmt.Sprintf(format, args...)})
	}
	file, path, err := a.clientFile()
	if err != nil {
		say("client file", "fail", "%v", err)
		return found
	}
	say("client file", "ok", "%s", path)
	a.examineRoot(file, say)
	remote, err := a.clientOfFile(file)
	if err != nil {
		say("token", "fail", "%v", err)
		return found
	}
	say("token", "ok", "found")
	who, err := remote.Whoami(ctx)
	if err != nil {
		say("broker", "fail", "%v", err)
		return found
	}
	say("broker", "ok", "%s answers, and shows the pinned root", file.Broker)
	a.examineRights(who, say)
	status, err := remote.Status(ctx, "")
	if err != nil {
		say("status", "fail", "%v", err)
		return found
	}
	a.examineStatus(status, say)
	a.examineTerminals(ctx, status.Terminals, say)
	if len(who.Sites) == 0 { // keys and tokens belong to all sites
		a.examineExpiry(ctx, remote, say)
	}
	if who.Role != string(broker.RoleViewer) {
		examineSites(ctx, remote, say)
	}
	return found
}

func (a *app) examineRoot(file *clientfile.File, say func(check, result, format string, args ...any)) {
	root, err := file.Root()
	switch left := time.Duration(0); {
	case err != nil:
		say("root certificate", "fail", "%v", err)
	default:
		if left = root.NotAfter.Sub(a.now()); left < expiryWarning {
			say("root certificate", "warn", "it expires %s (rotate it: hostler trust rotate --use root)",
				render.Ago(root.NotAfter, a.now()))
		} else {
			say("root certificate", "ok", "valid until %s", render.Time(root.NotAfter))
		}
	}
}

func (a *app) examineRights(who *api.Token, say func(check, result, format string, args ...any)) {
	sites := "all sites"
	if len(who.Sites) > 0 {
		sites = "sites " + strings.Join(who.Sites, ", ")
	}
	if !who.ExpiresAt.IsZero() && who.ExpiresAt.Sub(a.now()) < expiryWarning {
		say("rights", "warn", "%s is %s for %s, and the token expires %s (get a new one)", who.Name, who.Role, sites,
			render.Ago(who.ExpiresAt, a.now()))
		return
	}
	say("rights", "ok", "%s is %s for %s", who.Name, who.Role, sites)
}

func (a *app) examineStatus(s *api.Status, say func(check, result, format string, args ...any)) {
	if skew := a.now().Sub(s.Now); skew.Abs() > taskcatalog.ClockSkew {
		say("clocks", "warn", "the clock of this machine shows %s, the broker's clock %s (correct one of them)", render.Time(a.now()),
			render.Time(s.Now))
	} else {
		say("clocks", "ok", "they agree within %s", render.Span(taskcatalog.ClockSkew))
	}
	if s.Version != version {
		say("version", "warn", "the broker is %s and this program %s", s.Version, version)
	} else {
		say("version", "ok", "both are %s", version)
	}
	if s.AgentReleases == 0 {
		say("agent package", "warn",
			"there is no package: new nodes cannot install the agent (publish one: hostler agent-release publish FILE)")
	} else {
		say("agent package", "ok", "%d published", s.AgentReleases)
	}
	if s.Stragglers > 0 {
		say("trust bundle", "warn", "version %d is not confirmed by %s (hostler trust show)", s.TrustVersion,
			plural(int(s.Stragglers), "node"))
	} else {
		say("trust bundle", "ok", "version %d is confirmed by every node", s.TrustVersion)
	}
	for _, h := range s.Holds {
		say(h.Kind, "warn", "%s, since %s, by %s: %s", siteWords(h.Site), render.Time(h.Since), h.By, h.Reason)
	}
	for _, al := range s.Alerts {
		say("alert", "warn", "%s: %s", al.Code, al.Message)
	}
}
