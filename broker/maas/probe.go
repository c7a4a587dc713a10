package maas

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/canonical/gomaasclient/client"
	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// Identity is a key's user and the version of MAAS that accepted the key.
type Identity struct {
	Version string
	User    string
	Admin   bool
	// Offset is how far MAAS's clock is ahead of ours, to the second. HasDate is false if MAAS does
	// not tell the time.
	Offset  time.Duration
	HasDate bool
}

// Identify asks a region for its version and for the key's user. Anybody may ask for the version:
// only the second answer proves that the key is valid.
func (r *Region) Identify(ctx context.Context) (Identity, error) {
	var id Identity
	v, a, err := answered(ctx, r, "read version", looks, func(c *client.Client) (*entity.Version, error) { return c.Version.Get() })
	if err != nil {
		return id, err
	}
	if id.Version = taskcatalog.Clean(v.Version, 32); id.Version == "" {
		return id, notMAAS("read version", false)
	}
	if id.HasDate = !a.date.IsZero(); id.HasDate {
		id.Offset = a.date.Sub(r.Now()).Round(time.Second)
	}
	u, err := call(ctx, r, "check the token", looks, func(c *client.Client) (*entity.User, error) { return c.Users.Whoami() })
	if err != nil {
		return id, err
	}
	if u.UserName == "" {
		return id, notMAAS("check the token", false)
	}
	id.User, id.Admin = taskcatalog.Clean(u.UserName, 64), u.IsSuperUser
	return id, nil
}

// supportedVersions are the versions whose sources this client was written from.
var supportedVersions = []string{"3.4.", "3.5.", "3.6.", "3.7."}

const (
	// MAAS refuses a request whose timestamp is 300 s old.
	worstOffset = 240 * time.Second
	badOffset   = 30 * time.Second
)

// probe checks the state of MAAS.
func (r *Report) probe(ctx context.Context, region *Region, site broker.Site, profiles []broker.Profile) {
	id, err := region.Identify(ctx)
	keyFailed := func() {
		r.add("api_key", Fail, "hostler site credentials "+site.Name+" --maas-token-file FILE", "%v", err)
	}
	if id.Version == "" && (ClassOf(err) == Unauthorized || ClassOf(err) == ClockSkew) {
		keyFailed() // MAAS answered, so it is reached
		return
	}
	if id.Version == "" {
		r.add("maas", Fail, "check that MAAS runs, and that the broker reaches its address", "%v", err)
		return
	}
	r.Version = id.Version
	if slices.ContainsFunc(supportedVersions, func(v string) bool { return strings.HasPrefix(id.Version, v) }) {
		r.add("maas", OK, "", "version %s", id.Version)
	} else {
		r.add("maas", Warn, "try this version at an unimportant site first", "version %s is not one of 3.4 to 3.7", id.Version)
	}
	r.clock(id)
	switch {
	case err != nil:
		keyFailed()
		return
	case !id.Admin:
		r.add("api_key", Fail, "use the API key of a MAAS administrator", "the token belongs to %s, who is not an administrator", id.User)
		return
	}
	r.add("api_key", OK, "", "of %s, an administrator", id.User)
	var policies []broker.Policy
	for _, p := range profiles {
		policies = append(policies, site.PolicyOf(p))
	}
	r.Needs(ctx, region, site.CommissioningScripts, policies)
	r.syncInterval(ctx, region, policies)
}

// Needs checks what policies need of a region to bring a machine up. A check that could not be made
// fails too, but has no next step.
func (r *Report) Needs(ctx context.Context, region *Region, scripts []broker.ScriptVersion, policies []broker.Policy) {
	r.images(ctx, region, policies)
	racks := r.racks(ctx, region)
	r.pxe(ctx, region, racks, policies)
	r.scripts(ctx, region, scripts)
}

func (r *Report) clock(id Identity) {
	next := "synchronise both clocks with NTP"
	switch off := id.Offset; {
	case !id.HasDate:
		r.add("clock", Warn, next, "MAAS does not report its time")
	case off > worstOffset:
		r.add("clock", Fail, next, "MAAS's clock is %s ahead: MAAS refuses requests that seem 300 s old", off)
	case off.Abs() > badOffset:
		r.add("clock", Warn, next, "the clocks of MAAS and the broker differ by %s", off.Abs())
	default:
		r.add("clock", OK, "", "the clocks of MAAS and the broker differ by %s", off.Abs())
	}
}

// scripts compares the site owner's scripts in MAAS with the recorded versions.
func (r *Report) scripts(ctx context.Context, region *Region, wanted []broker.ScriptVersion) {
	const name = "commissioning_scripts"
	if len(wanted) == 0 {
		r.add(name, OK, "", "the site requires none")
		return
	}
	all, err := call(ctx, region, "list scripts", looks, func(c *client.Client) ([]entity.NodeScript, error) {
		return c.NodeScripts.Get(&entity.NodeScriptReadParams{})
	})
	if err != nil {
		r.add(name, Fail, "", "%v", err)
		return
	}
	for _, w := range wanted {
		i := slices.IndexFunc(all, func(s entity.NodeScript) bool { return s.Name == w.Name })
		if i < 0 {
			r.add(name, Fail, "upload the script to MAAS (the site's owner has it)", "%s is missing", w.Name)
			continue
		}
		var newest entity.NodeScriptHistory
		for _, h := range all[i].History {
			if h.ID >= newest.ID {
				newest = h
			}
		}
		if has := strconv.Itoa(newest.ID); w.Version == has || w.Version == newest.Comment {
			r.add(name, OK, "", "%s is version %s", w.Name, w.Version)
		} else {
			r.add(name, Fail, "upload the version that was recorded, or record this one: hostler site update SITE --commissioning-script "+
				w.Name+"="+has,
				"%s is version %s (%s), and %s was recorded", w.Name, has, taskcatalog.Clean(newest.Comment, 100), w.Version)
		}
	}
}

// syncInterval compares the region's setting with the policies'.
func (r *Report) syncInterval(ctx context.Context, region *Region, policies []broker.Policy) {
	const name = "hardware_sync"
	raw, err := call(ctx, region, "read hardware_sync_interval", looks, func(c *client.Client) ([]byte, error) {
		return c.MAASServer.Get("hardware_sync_interval")
	})
	if err != nil {
		r.add(name, Fail, "", "%v", err)
		return
	}
	text := taskcatalog.Clean(strings.Trim(strings.TrimSpace(string(raw)), `"`), 32)
	has, err := broker.SyncInterval(text)
	if err != nil {
		r.add(name, Fail, "set hardware_sync_interval in MAAS", "the region's interval is %q", text)
		return
	}
	for _, q := range policies {
		if wants, err := broker.SyncInterval(q.HardwareSyncInterval); q.RequireHWSync && err == nil && wants != has {
			r.add(name, Warn,
				"a deployment sets the interval for the whole region: use the same value in all profiles and sites of the region",
				"the region syncs every %s, and a profile has %s", text, q.HardwareSyncInterval)
			return
		}
	}
	r.add(name, OK, "", "the region syncs every %s", text)
}
