package maassim

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/template"
)

// metadata is the table of the metadata service, by path. Every path except those with access
// anyone requires the machine's own token.
var metadata = map[string]operation{
	"GET /MAAS/metadata/{version}/{$}": {
		"metadata", view,
		metadataIndex("meta-data/", "user-data", "vendor-data", "maas-scripts"),
	},
	"GET /MAAS/metadata/{version}/meta-data/{$}": {
		"meta-data", view,
		metadataIndex("instance-id", "local-hostname", "public-keys", "vendor-data"),
	},
	"GET /MAAS/metadata/{version}/meta-data/instance-id":    {"meta-data", view, (*call).instanceID},
	"GET /MAAS/metadata/{version}/meta-data/local-hostname": {"meta-data", view, (*call).localHostname},
	"GET /MAAS/metadata/{version}/meta-data/public-keys":    {"meta-data", view, metadataIndex()},
	"GET /MAAS/metadata/{version}/user-data":                {"user-data", view, (*call).giveUserData},
	"GET /MAAS/metadata/{version}/vendor-data":              {"vendor-data", view, (*call).giveVendorData},
	"GET /MAAS/metadata/{version}/maas-scripts": {
		"maas-scripts", view,
		func(*call) answer { return answer{code: http.StatusNoContent, ctype: textPlain} },
	},
	"POST /MAAS/metadata/{version}/{$}":       {"signal", view, (*call).signal},
	"POST /MAAS/metadata/status/{machine}":    {"report", view, (*call).report},
	"GET /MAAS/maas-run-scripts":              {"maas-run-scripts", anyone, (*call).giveRunScripts},
	"GET /MAAS/nocloud/{machine}/meta-data":   {"meta-data", anyone, (*call).noCloudMetaData},
	"GET /MAAS/nocloud/{machine}/user-data":   {"user-data", anyone, (*call).giveUserData},
	"GET /MAAS/nocloud/{machine}/vendor-data": {"vendor-data", anyone, (*call).giveVendorData},
}

// serveMetadata answers a machine. MAAS has no paths below nocloud: a Guest reads its data there
// without a token, where a machine installed by MAAS uses its own token.
func (r *Region) serveMetadata(w http.ResponseWriter, req *http.Request, op operation) {
	form, err := metadataForm(req)
	if err != nil {
		a := text(http.StatusBadRequest, "Unable to parse request: %v", err)
		a.write(w, r)
		return
	}
	a := func() answer {
		defer r.enter()()
		c := &call{Region: r, req: req, params: form}
		a := c.carryOutForMachine(op)
		c.params = url.Values{"status": form["status"], "name": form["name"]}
		c.record(op.name, &a, "")
		return a
	}()
	a.write(w, r)
}

func metadataForm(req *http.Request) (url.Values, error) {
	form := req.URL.Query()
	if strings.HasPrefix(req.Header.Get("Content-Type"), "application/json") {
		var told map[string]any
		err := json.NewDecoder(req.Body).Decode(&told)
		for _, name := range []string{"name", "description", "result", "origin", "event_type"} {
			if text, is := told[name].(string); is {
				form.Set(name, text)
			}
		}
		return form, err
	}
	body, err := params(req)
	for name, values := range body {
		form[name] = append(form[name], values...)
	}
	return form, err
}

func (c *call) carryOutForMachine(op operation) answer {
	if op.may == anyone {
		if id := c.req.PathValue("machine"); id != "" {
			if c.machine = c.find(id); c.machine == nil {
				return text(http.StatusNotFound, "No Machine matches the given query.")
			}
			c.about(c.machine)
		}
		return op.do(c)
	}
	u, m, refusal := c.authenticate(c.req)
	id := c.req.PathValue("machine")
	switch {
	case refusal != nil:
		return *refusal
	case u == nil && m == nil:
		return text(http.StatusUnauthorized, "Unauthorized")
	case m == nil, id != "" && id != m.systemID:
		return forbidden()
	}
	c.machine = m
	c.about(m)
	return op.do(c)
}

func metadataIndex(entries ...string) func(*call) answer {
	return func(*call) answer { return text(http.StatusOK, "%s", strings.Join(entries, "\n")) }
}

func (c *call) instanceID() answer    { return text(http.StatusOK, "%s", c.machine.systemID) }
func (c *call) localHostname() answer { return text(http.StatusOK, "%s.maas", c.machine.hostname) }

func (c *call) noCloudMetaData() answer {
	return text(http.StatusOK, "instance-id: %s\nlocal-hostname: %s\n", c.machine.systemID, c.machine.hostname)
}

// giveUserData serves the user-data. The installed system's request makes a machine Deployed.
func (c *call) giveUserData() answer {
	m := c.machine
	if m.status == Deploying {
		m.deployed()
	}
	if m.userData == nil {
		return text(http.StatusNotFound, "No user data available for this node.")
	}
	return answer{code: http.StatusOK, ctype: "application/octet-stream", body: m.userData}
}

//go:embed vendor-data.yaml
var vendorDataText string

var vendorData = template.Must(template.New("vendor-data").Parse(vendorDataText))

// giveVendorData includes hardware sync if the deployment asked for it, with MAAS's own names of
// files and units.
func (c *call) giveVendorData() answer {
	m := c.machine
	m.render()
	var b strings.Builder
	err := vendorData.Execute(&b, map[string]any{
		"Region": "http://" + c.req.Host, "SystemID": m.systemID, "Syncs": m.syncs, "Minutes": max(m.syncInterval/60, 1),
		"ConsumerKey": m.token.consumer, "TokenKey": m.token.key, "TokenSecret": m.token.secret,
	})
	if err != nil {
		panic(fmt.Sprintf("cannot render vendor-data: %v", err))
	}
	return text(http.StatusOK, "%s", b.String())
}

//go:embed maas-run-scripts
var runScripts []byte

func (c *call) giveRunScripts() answer {
	return answer{code: http.StatusOK, ctype: "application/octet-stream", body: runScripts}
}

// signal handles a machine's report of its progress. Every signal that is not ignored or refused
// moves last_sync while the machine syncs. OK from a Deployed machine makes it Ready.
func (c *call) signal() answer {
	m, status := c.machine, c.params.Get("status")
	if op := c.params.Get("op"); op != "signal" {
		return unrecognised(c.req.Method, op)
	}
	switch {
	case status == "":
		return text(http.StatusBadRequest, "No provided status!")
	case !slices.Contains([]string{"OK", "WORKING", "FAILED", "TESTING", "COMMISSIONING", "INSTALLING", "APPLYING_NETCONF", "TIMEDOUT"},
		status):
		return text(http.StatusBadRequest, "Unknown status: '%s'", status)
	case m.status.in(Broken, FailedCommissioning, FailedDeployment, Ready, FailedEnteringRescueMode, FailedTesting, New):
		return text(http.StatusOK, "OK") // accepted without effect
	case !m.status.in(Commissioning, Deploying, Deployed, DiskErasing, EnteringRescueMode, RescueMode, Testing):
		return conflict("Machine status isn't valid (status is %s)", m.status)
	case m.status == Deployed && status == "FAILED":
		return conflict("Invalid transition: %s -> %s.", Deployed, FailedCommissioning)
	}
	m.synced()
	c.heed(m, status)
	return text(http.StatusOK, "OK")
}

// heed applies a signal to the machine.
func (c *call) heed(m *machine, status string) {
	switch at := m.status; {
	case at == Deploying && status == "FAILED":
		m.fail(FailedDeployment, "Installation failed (refer to the installation log for more information).")
	case at == DiskErasing && status == "FAILED":
		m.fail(FailedDiskErasing, "Failed to erase disks.")
	case at == DiskErasing && status == "OK":
		c.event(m, info, "Disks erased", "") // the machine's last report then releases it
	case at == Commissioning && status == "FAILED":
		m.commissioningFailed()
	case at == Commissioning && (status == "OK" || status == "TESTING"):
		m.testing = status == "TESTING"
		m.commissionedOnce()
	case at == Deployed && status == "TESTING":
		m.begin()
		m.toTesting()
	case at == Deployed && status == "OK":
		m.begin()
		m.enter(Ready, "Ready")
	case at == Testing && status == "OK":
		m.tested()
	case at == Testing && status == "FAILED":
		m.begin()
		m.enter(FailedTesting, "Failed testing")
	case at == EnteringRescueMode && (status == "OK" || status == "WORKING"):
		m.begin()
		m.enter(RescueMode, "Rescue mode")
	case at == EnteringRescueMode && status == "FAILED":
		m.fail(FailedEnteringRescueMode, "Failed to enter rescue mode.")
	}
}

// report handles a progress report of cloud-init or curtin. The end of a whole part, not of a step
// within it, may fail an installation or release a machine whose disks are erased.
func (c *call) report() answer {
	m, name := c.machine, c.params.Get("name")
	c.event(m, debug, "Node status event", "'"+or(c.params.Get("origin"), "cloudinit")+"' "+name+" "+c.params.Get("description"))
	if c.params.Get("event_type") != "finish" || strings.Contains(name, "/") {
		return answer{code: http.StatusNoContent, ctype: textPlain}
	}
	failed := strings.HasPrefix(c.params.Get("result"), "FAIL")
	switch {
	case failed && m.status == Deploying:
		m.fail(FailedDeployment, "Installation failed (refer to the installation log for more information).")
	case failed && m.status == Commissioning:
		m.endRun(runAborted)
		m.fail(FailedCommissioning, "Commissioning failed, cloud-init reported a failure (refer to the event log for more information)")
	case failed && m.status == DiskErasing:
		m.fail(FailedDiskErasing, "Failed to erase disks.")
	case m.status == DiskErasing && name == "modules-final":
		m.erased()
	}
	if m.status.in(Ready, FailedCommissioning) {
		m.setOwner("")
	}
	return answer{code: http.StatusNoContent, ctype: textPlain}
}
