package maassim

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

type pool struct {
	name, description string
	id                int
}

func (p pool) body() poolBody {
	return poolBody{p.name, p.description, p.id, fmt.Sprintf("/MAAS/api/2.0/resourcepool/%d/", p.id)}
}

var zone = poolBody{Name: "default", ID: 1, ResourceURI: "/MAAS/api/2.0/zones/default/"}

// poolNamed returns the pool with the id.
func (r *Region) poolNamed(id int) pool {
	i := slices.IndexFunc(r.pools, func(p pool) bool { return p.id == id })
	return r.pools[i]
}

// poolID returns the id of the pool with the name or id; with create, a missing pool is added.
func (r *Region) poolID(name string, create bool) (int, bool) {
	i := slices.IndexFunc(r.pools, func(p pool) bool { return p.name == name || strconv.Itoa(p.id) == name })
	if i >= 0 {
		return r.pools[i].id, true
	}
	if create {
		r.pools = append(r.pools, pool{name, "", r.id("pool")})
		return r.pools[len(r.pools)-1].id, true
	}
	return 0, false
}

func (c *call) listPools() answer {
	all := []poolBody{}
	for _, p := range c.pools {
		all = append(all, p.body())
	}
	return ok(all)
}

func (c *call) createPool() answer {
	name := c.params.Get("name")
	if _, taken := c.poolID(name, false); taken || name == "" {
		return invalid("name", "Resource pool with this Name already exists.")
	}
	id, _ := c.poolID(name, true)
	return ok(c.poolNamed(id).body())
}

func (c *call) listZones() answer { return ok([]poolBody{zone}) }
func (c *call) listTags() answer  { return ok([]any{}) }

// stockSettings are the settings of a new region, limited to those that a test has needed so far.
func stockSettings(patience time.Duration) map[string]any {
	return map[string]any{
		"hardware_sync_interval": "15m", "default_storage_layout": "flat", "enable_disk_erasing_on_release": false,
		"disk_erase_with_secure_erase": true, "disk_erase_with_quick_erase": false, "node_timeout": int(patience.Minutes()),
		"default_osystem":       "ubuntu",
		"default_distro_series": "jammy", "commissioning_osystem": "ubuntu", "commissioning_distro_series": "jammy",
		"default_min_hwe_kernel": "", "maas_name": "maas", "http_proxy": nil, "enable_http_proxy": true, "ntp_servers": "ntp.ubuntu.com",
		"upstream_dns": nil, "dnssec_validation": "auto", "network_discovery": "enabled", "kernel_opts": nil,
		"boot_images_auto_import": true,
		"remote_syslog":           nil, "curtin_verbose": true, "maas_auto_ipmi_user": "maas",
	}
}

func (c *call) getConfig() answer {
	name := c.params.Get("name")
	value, known := c.settings[name]
	if !known {
		return invalid("name", fmt.Sprintf("%s is not a valid config setting (valid settings are: ...).", name))
	}
	a := ok(value)
	a.ctype = "application/json"
	return a
}

func (c *call) setConfig() answer {
	name, value := c.params.Get("name"), c.params.Get("value")
	was, known := c.settings[name]
	if !known {
		return invalid("name", fmt.Sprintf("%s is not a valid config setting (valid settings are: ...).", name))
	}
	switch was.(type) {
	case bool:
		c.settings[name] = value == "true" || value == "True" || value == "1"
	case int:
		n, err := strconv.Atoi(value)
		if err != nil {
			return invalid(name, "Enter a whole number.")
		}
		c.settings[name] = n
	default:
		if name == "hardware_sync_interval" && span(value) == 0 {
			return invalid(name, fmt.Sprintf("%s is not a valid systemd interval.", value))
		}
		c.settings[name] = value
	}
	return text(http.StatusOK, "OK")
}

// Set changes a setting of the region, as the UI's settings page does.
func (r *Region) Set(name string, value any) {
	defer r.enter()()
	r.settings[name] = value
}

func (c *call) version() answer {
	return ok(struct {
		Capabilities []string `json:"capabilities"`
		Version      string   `json:"version"`
		Subversion   string   `json:"subversion"`
	}{[]string{
		"networks-management", "static-ipaddresses", "ipv6-deployment-ubuntu", "devices-management", "storage-deployment-ubuntu",
		"network-deployment-ubuntu", "bridging-interface-ubuntu", "bridging-automatic-ubuntu", "authenticate-api",
	}, c.Version, ""})
}

type userBody struct {
	IsSuperuser bool   `json:"is_superuser"`
	Username    string `json:"username"`
	Email       string `json:"email"`
	IsLocal     bool   `json:"is_local"`
	ResourceURI string `json:"resource_uri"`
}

func (u *user) body() userBody {
	return userBody{u.superuser, u.name, u.name + "@example.com", true, "/MAAS/api/2.0/users/" + u.name + "/"}
}

func (c *call) whoami() answer { return ok(c.user.body()) }

func (c *call) listUsers() answer {
	all := []userBody{}
	for _, u := range c.users {
		all = append(all, u.body())
	}
	return ok(all)
}

// notification is a banner at the top of the UI.
type notification struct {
	Ident       string         `json:"ident"`
	User        *string        `json:"user"`
	Users       bool           `json:"users"`
	Admins      bool           `json:"admins"`
	Message     string         `json:"message"`
	Context     map[string]any `json:"context"`
	Category    string         `json:"category"`
	Dismissable bool           `json:"dismissable"`
	ID          int            `json:"id"`
	ResourceURI string         `json:"resource_uri"`
}

func (c *call) listNotifications() answer {
	all := []notification{}
	add := func(ident, category, message string) {
		id := len(all) + 1
		all = append(all, notification{
			Ident: ident, Admins: true, Message: message, Context: map[string]any{}, Category: category, Dismissable: category != "error",
			ID:          id,
			ResourceURI: fmt.Sprintf("/MAAS/api/2.0/notifications/%d/", id),
		})
	}
	if !c.servesAny() {
		add("dhcp_disabled_all_vlans", "warning",
			"DHCP is not enabled on any VLAN.  This will prevent machines from being able to PXE boot, "+
				"unless an external DHCP server is being used.")
	}
	if c.noRack {
		add("clusters", "error",
			"One rack controller is not yet connected to the region. Visit the <a href='/MAAS/l/controllers'>rack controllers page</a> for more information.")
	}
	return ok(all)
}
