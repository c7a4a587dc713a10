package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func siteProfileCommand(a *app) *cobra.Command {
	return noun("profile", "policy profiles of a site", "  hostler site profile update dc1 default --set deploy_timeout_seconds=7200",
		siteProfileCreateCommand(a), siteProfileListCommand(a), siteProfileShowCommand(a),
		siteProfileUpdateCommand(a), siteProfileDefaultCommand(a), siteProfileExplainCommand(a))
}

// profileFields are the flags of create and update.
func profileFields(c *cobra.Command) *fields {
	f := fieldsOf(c)
	f.text("description", "description", "purpose of the profile")
	f.text("status", "status", "active or disabled")
	set := c.Flags().StringArray("set", nil, "`KNOB=VALUE` (may be repeated)")
	then := cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	_ = c.RegisterFlagCompletionFunc("set", completeKnobs("=", then)) // the flag is there
	f.on("set", func(d client.Document) error { return setKnobs(d, knobsOf[api.SitePolicy](), *set) })
	f.reason()
	return f
}

func siteProfileCreateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "create SITE PROFILE", Short: "add a profile to a site", Args: exactly("SITE", "PROFILE"),
		Long:    "Add a profile to a site, with the default of every knob that --set does not name.\nhostler site profile explain lists the knobs.",
		Example: "  hostler site profile create dc1 careful --set release_fallback_no_erase=false --set batch_max_parallel=2",
	}
	f := profileFields(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		d, err := f.document()
		if err != nil {
			return err
		}
		d["name"] = args[1]
		remote, err := a.connect()
		if err != nil {
			return err
		}
		p, err := remote.CreateSiteProfile(c.Context(), args[0], d)
		if err != nil {
			return err
		}
		return a.showProfile(p)
	}
	return c
}

func siteProfileUpdateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "update SITE PROFILE", Short: "change a profile; runs that have started keep their copy", Args: exactly("SITE", "PROFILE"),
		Long:    "Change a profile: the knobs that --set names, as hostler site profile explain lists\nthem. Runs that have started keep their copy.",
		Example: "  hostler site profile update dc1 default --set stage_retries.deploy_via_maas=3 --set commission_timeout_seconds=7200 --reason 'slow BMCs'",
	}
	f := profileFields(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		d, err := f.change()
		if err != nil {
			return err
		}
		remote, err := a.connect()
		if err != nil {
			return err
		}
		p, err := remote.UpdateSiteProfile(c.Context(), args[0], args[1], d)
		if err != nil {
			return err
		}
		return a.showProfile(p)
	}
	return c
}

func siteProfileDefaultCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "set-default SITE PROFILE", Short: "set the profile for runs that name none", Args: exactly("SITE", "PROFILE"),
		Example: "  hostler site profile set-default dc1 careful",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			s, err := remote.UpdateSite(c.Context(), args[0], client.Document{"default_profile_id": args[1], "reason": reason})
			if err != nil {
				return err
			}
			return a.show(s, []string{s.DefaultProfileID}, func(p *render.Page) {
				p.Line("the default profile of site " + s.Name + " is " + args[1])
			})
		},
	}
	reasonFlag(c, &reason)
	return c
}

func siteProfileListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list SITE", Short: "list a site's profiles", Args: exactly("SITE"),
		Example: "  hostler site profile list dc1",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.SiteProfiles(c.Context(), args[0])
			if err != nil {
				return err
			}
			names, rows := []string{}, [][]string{}
			for _, p := range l.Items {
				names = append(names, p.Name)
				rows = append(rows, []string{
					p.Name, render.YesNo(p.Default), p.Status, orSite(p.DistroSeries),
					strconv.Itoa(p.BatchMaxParallel), render.Ago(p.UpdatedAt, a.now()), p.Description,
				})
			}
			return a.show(l, names, func(p *render.Page) {
				p.Table([]render.Column{
					render.Keep("PROFILE"), render.Keep("DEFAULT"), render.Keep("STATUS"), render.Main("SERIES"),
					render.More("PARALLEL"), render.Aside("CHANGED"), render.More("DESCRIPTION"),
				}, rows)
			})
		},
	}
}

func orSite(s string) string {
	if s == "" {
		return "the site's"
	}
	return s
}

func siteProfileShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show SITE PROFILE", Short: "show a profile with all its knobs", Args: exactly("SITE", "PROFILE"),
		Example: "  hostler site profile show dc1 default",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			p, err := remote.SiteProfile(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return a.showProfile(p)
		},
	}
}

// showProfile lists the knobs under their names, so that each shown name can be set.
func (a *app) showProfile(v *api.SiteProfile) error {
	return a.show(v, []string{v.Name}, func(p *render.Page) {
		p.Fields("profile", v.Name, "id", v.ID, "default", render.YesNo(v.Default), "status", v.Status, "description", v.Description,
			"created", moment(a, v.CreatedAt), "changed", moment(a, v.UpdatedAt))
		for _, group := range knobGroups() {
			var values []string
			for _, k := range group {
				values = append(values, knobFields(k, broker.Policy(v.SitePolicy))...)
			}
			p.Title(group[0].Group)
			p.Fields(values...)
		}
	})
}

// knobFields are the name and value of a knob, or of each entry of a knob that is a map.
func knobFields(k broker.Knob, p broker.Policy) []string {
	switch v := k.Of(p).(type) {
	case map[string]int:
		var entries []string
		for _, stage := range slices.Sorted(maps.Keys(v)) {
			entries = append(entries, k.Name+"."+stage, strconv.Itoa(v[stage]))
		}
		return entries
	case []string:
		return []string{k.Name, cmp.Or(strings.Join(v, ","), "-")}
	case *int:
		if v == nil {
			return []string{k.Name, "-"}
		}
		return []string{k.Name, strconv.Itoa(*v)}
	default:
		return []string{k.Name, cmp.Or(fmt.Sprint(v), "-")}
	}
}

// knobGroups are the declared knobs, a list for each group.
func knobGroups() (groups [][]broker.Knob) {
	for _, k := range broker.Knobs() {
		if n := len(groups); n > 0 && groups[n-1][0].Group == k.Group {
			groups[n-1] = append(groups[n-1], k)
			continue
		}
		groups = append(groups, []broker.Knob{k})
	}
	return groups
}
