package main

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// examineExpiry has a line for each thing with an end that the broker depends on.
func (a *app) examineExpiry(ctx context.Context, remote *client.Client, say func(check, result, format string, args ...any)) {
	ends, err := remote.Expiry(ctx)
	if err != nil {
		say("what ends", "fail", "%v", err)
		return
	}
	for _, e := range ends.Items {
		name := ""
		if e.Name != "" {
			name = shortened(e.Name) + " "
		}
		switch {
		case e.Trouble != "":
			say(e.What, "warn", "%s (%s)", e.Trouble, e.Renew)
		case e.At.IsZero():
			say(e.What, "ok", "%shas no known expiry", name)
		case !e.At.After(a.now()):
			say(e.What, "fail", "%sexpired %s (%s)", name, render.Ago(e.At, a.now()), e.Renew)
		case e.Near:
			say(e.What, "warn", "%sexpires %s (%s)", name, render.Ago(e.At, a.now()), e.Renew)
		default:
			say(e.What, "ok", "%sis valid until %s", name, render.Time(e.At))
		}
	}
}

// shortened is enough of an id to tell two ids apart.
func shortened(id string) string {
	const enough = 16
	if len(id) > 2*enough {
		return id[:enough] + "…"
	}
	return id
}

// probePatience is the time limit for one site. The command does not wait for all of them as long
// as one takes to fail.
const probePatience = 20 * time.Second

// examineSites checks whether each site's MAAS answers and accepts the key.
func examineSites(ctx context.Context, remote *client.Client, say func(check, result, format string, args ...any)) {
	sites, err := remote.Sites(ctx)
	if err != nil {
		say("sites", "fail", "%v", err)
		return
	}
	for _, s := range sites.Items {
		if s.Status == "active" {
			examineSite(ctx, remote, s, say)
		}
	}
}

func examineSite(ctx context.Context, remote *client.Client, s api.Site, say func(check, result, format string, args ...any)) {
	check := "MAAS of " + s.Name
	if s.APITokenSetAt.IsZero() {
		say(check, "warn", "it has no key yet (run hostler site credentials %s --maas-token-file FILE)", s.Name)
		return
	}
	ctx, done := context.WithTimeout(ctx, probePatience)
	defer done()
	probe, err := remote.ProbeSite(ctx, s.Name, "")
	if err != nil {
		say(check, "fail", "%v", err)
		return
	}
	for _, c := range probe.Checks {
		if c.Status == "fail" {
			say(check, "fail", "%s: %s (hostler site probe %s)", c.Check, c.Detail, s.Name)
			return
		}
	}
	say(check, "ok", "version %s accepts the key, which was set %s", probe.MAASVersion, render.Time(s.APITokenSetAt))
}
