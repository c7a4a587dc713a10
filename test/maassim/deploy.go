package maassim

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

// deploy installs the machine for its owner. An administrator may also deploy a machine that
// another user allocated.
func (c *call) deploy() answer {
	m := c.machine
	switch {
	case m.status == Ready && m.owner != "":
		return conflict("Can't deploy a machine that is allocated to another user")
	case !m.status.in(Ready, Allocated):
		return conflict("Can't deploy a machine that is in the '%s' state", m.status)
	}
	if refusal := c.deployable(m); refusal != nil {
		return *refusal
	}
	if m.status == Ready {
		m.begin()
		m.setOwner(c.user.name)
		m.enter(Allocated)
	}
	if agent := c.params.Get("agent_name"); agent != "" {
		m.agent = agent
	}
	m.userData = decoded(c.params.Get("user_data"))
	m.syncs = c.flag("enable_hw_sync")
	m.ephemeral = c.flag("ephemeral_deploy")
	return c.start(m)
}

// deployable refuses a deployment that MAAS would not begin. deployable changes nothing.
func (c *call) deployable(m *machine) *answer {
	if given := c.params.Get("enable_hw_sync"); given != "" && given != "true" && given != "false" && given != "True" && given != "False" {
		return ptr(text(http.StatusBadRequest, "Invalid enable_hw_sync: Value should be 'true' or 'false'"))
	}
	if c.params.Has("install_rackd") && c.flag("install_rackd") {
		return ptr(text(http.StatusBadRequest, "Installing the rack controller is no longer supported"))
	}
	image, known := c.image(c.params.Get("distro_series"))
	if !known {
		var names []string
		for _, i := range c.Images {
			names = append(names, "'"+i.Name+"'")
		}
		return ptr(invalid("distro_series", "'"+c.params.Get("distro_series")+"' is not a valid distro_series.  It should be one of: "+
			strings.Join(names, ", ")+"."))
	}
	if image.uploaded() && image.Base != "" {
		if _, synced := c.image(image.Base); !synced {
			return ptr(text(http.StatusBadRequest, "Deployment operating system %s is unavailable: base image %s is missing", image.Name,
				image.Base))
		}
	}
	configured := false
	for _, i := range m.interfaces {
		for _, l := range i.links {
			configured = configured || l.mode != "link_up"
		}
	}
	switch {
	case !configured:
		return ptr(invalid("network", "Node must be configured to use a network"))
	case !m.hasRoot() && !c.flag("ephemeral_deploy"):
		return ptr(invalid("storage", "Mount the root '/' filesystem to be able to deploy this node."))
	}
	if m.hit(PreseedFails) {
		return ptr(text(http.StatusBadRequest,
			"Failed to render preseed: name 'release' is not defined at line 12 column 3 in file /etc/maas/preseeds/curtin_userdata_custom"))
	}
	m.osystem, m.series, m.kernel = image.osystem(), image.series(), c.params.Get("hwe_kernel")
	if m.kernel == "" && m.osystem == "ubuntu" {
		m.kernel = kernels(image)[1]
	}
	return nil
}

// start begins a deployment of an allocated machine. Up to 3.5 a power failure ends the call and
// leaves the machine Allocated. From 3.6 the call succeeds all the same, and the machine fails
// later without an event.
func (c *call) start(m *machine) answer {
	unseen := m.hit(DeployDiesUnseen)
	c.asked(m, "User starting deployment")
	if c.since("3.6") {
		m.enter(Deploying, "Deploying")
	} else if refusal := m.start(c.user, Deploying, "Deploying"); refusal != nil {
		return *refusal
	}
	m.begin()
	m.change("deploy", "", "")
	m.results["installation"] = c.id("result")
	if m.syncs {
		m.syncInterval = int(span(c.settings["hardware_sync_interval"].(string)).Seconds())
	}
	if c.since("3.6") && m.power(true) != nil {
		unseen = true
	}
	body := m.body()
	m.install(unseen)
	return ok(body)
}

// install schedules the rest of the deployment after the call.
func (m *machine) install(diesUnseen bool) {
	t, h := m.timing(), m.metal()
	if diesUnseen {
		m.after(t.Address, func() {
			m.begin()
			m.enterUnseen(FailedDeployment)
		})
		return
	}
	m.after(t.Address, m.claimAddresses)
	if late, is := m.strikes(TokenLate); is {
		m.after(t.Token+late.After, m.render)
	} else if !m.hit(TokenNever) {
		m.after(t.Token, m.render)
	}
	// The installer's reports count as a sync, so last_sync alone proves nothing.
	m.after(t.Deploy/2, m.synced)
	patience := t.NodeTimeout
	if m.region.since("3.6") {
		patience *= 2
	}
	switch {
	case h == nil || h.NoPXE || m.region.identity(h) != m || m.region.noDHCP:
		m.after(patience, func() { m.timeOut(FailedDeployment, patience) })
	case m.hit(DeployFails):
		m.after(t.Deploy, func() {
			m.region.event(m, failure, "Node installation failure", "'curtin' curtin command install")
			m.fail(FailedDeployment, "Installation failed (refer to the installation log for more information).")
		})
	case m.hit(DatasourceFails):
		m.after(t.Deploy, func() {
			m.region.event(m, debug, "Installation complete", "Node disabled netboot")
			m.region.event(m, failure, "Node installation failure", "'cloudinit' searching for network data: no datasource found")
			m.after(max(patience-t.Deploy, 0), func() { m.timeOut(FailedDeployment, patience) })
		})
	default:
		m.after(t.Deploy, func() {
			switch {
			case h.on && h.Guest == nil:
				m.deployed()
				return
			case h.on:
				h.Guest.Install("/MAAS/nocloud/" + m.systemID + "/")
			}
			m.after(max(patience-t.Deploy, 0), func() { m.timeOut(FailedDeployment, patience) })
		})
	}
}

// render creates the machine's token, as rendering the configuration does.
func (m *machine) render() {
	if m.token == nil {
		m.change("token", "", "")
		m.token = ptr(m.region.newToken())
	}
}

// deployed handles the installed system's request for its user-data. The host is not up yet.
func (m *machine) deployed() {
	m.begin()
	m.claimAddresses()
	m.region.deployedImages[m.osystem+"/"+m.series] = m.region.moment
	m.region.event(m, info, "Image Deployed", "deployed "+m.osystem+"/"+m.series+"/"+m.architecture)
	m.enter(Deployed, "Deployed")
	m.synced()
	m.comeUp()
}

func (m *machine) synced() {
	if m.syncs {
		m.lastSync = m.region.moment
	}
}

// comeUp schedules the host's start and its periodic hardware reports.
func (m *machine) comeUp() {
	if !m.hit(NeverUp) {
		m.after(m.timing().PhoneHome, m.up)
	}
	if h := m.metal(); m.syncs && h != nil && h.Guest == nil {
		stop, stops := m.strikes(SyncStops)
		m.syncEvery(time.Duration(m.syncInterval)*time.Second, m.region.moment.Add(stop.After), stops)
	}
}

func (m *machine) up() {
	if h := m.metal(); h != nil && h.on {
		h.hostUp = true
	}
}

func (m *machine) syncEvery(interval time.Duration, until time.Time, stops bool) {
	if interval <= 0 {
		return
	}
	m.after(interval, func() {
		if !m.syncs || (stops && m.region.moment.After(until)) {
			return
		}
		if h := m.metal(); h != nil && h.hostUp {
			m.synced()
		}
		m.syncEvery(interval, until, stops)
	})
}

func (c *call) getToken() answer {
	if c.machine.token == nil {
		return ok(nil)
	}
	return ok(c.machine.token.body())
}

type tokenBody struct {
	TokenKey    string `json:"token_key"`
	TokenSecret string `json:"token_secret"`
	ConsumerKey string `json:"consumer_key"`
}

func (t *token) body() tokenBody { return tokenBody{t.key, t.secret, t.consumer} }

func (c *call) curtinConfig() answer {
	m := c.machine
	if !m.status.in(Deploying, Deployed, FailedDeployment) {
		return text(http.StatusBadRequest, "Machine %s is not in a deployment state.", m.hostname)
	}
	if c.noRack && m.status != FailedDeployment {
		return text(http.StatusInternalServerError, "'NoneType' object has no attribute 'fqdn'")
	}
	m.render()
	return text(http.StatusOK, "install: {log_file: /tmp/install.log}\nkernel: {package: linux-%s, mapping: {}}\n", or(m.kernel, "generic"))
}

// decoded reads user-data, given as base64 or as plain text.
func decoded(given string) []byte {
	if given == "" {
		return nil
	}
	if raw, err := base64.StdEncoding.DecodeString(given); err == nil {
		return raw
	}
	return []byte(given)
}
