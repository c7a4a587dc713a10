package maassim

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/template"
)

// metadata is what machines ask of the region, by path; all but what every rack
// controller hands out is under the machine's own token.
var metadata = map[string]operation{
	"GET /MAAS/metadata/{version}/{$}":                      {"metadata", view, metadataIndex("meta-data/", "user-data", "vendor-data", "maas-scripts")},
	"GET /MAAS/metadata/{version}/meta-data/{$}":            {"meta-data", view, metadataIndex("instance-id", "local-hostname", "public-keys", "vendor-data")},
	"GET /MAAS/metadata/{version}/meta-data/instance-id":    {"meta-data", view, (*call).instanceID},
	"GET /MAAS/metadata/{version}/meta-data/local-hostname": {"meta-data", view, (*call).localHostname},
	"GET /MAAS/metadata/{version}/meta-data/public-keys":    {"meta-data", view, metadataIndex()},
	"GET /MAAS/metadata/{version}/user-data":                {"user-data", view, (*call).giveUserData},
	"GET /MAAS/metadata/{version}/vendor-data":              {"vendor-data", view, (*call).giveVendorData},
	"GET /MAAS/metadata/{version}/maas-scripts":             {"maas-scripts", view, func(*call) answer { return answer{code: http.StatusNoContent, ctype: textPlain} }},
	"POST /MAAS/metadata/{version}/{$}":                     {"signal", view, (*call).signal},
	"POST /MAAS/metadata/status/{machine}":                  {"report", view, (*call).report},
	"GET /MAAS/maas-run-scripts":                            {"maas-run-scripts", anyone, (*call).giveRunScripts},
	"GET /MAAS/nocloud/{machine}/meta-data":                 {"meta-data", anyone, (*call).noCloudMetaData},
	"GET /MAAS/nocloud/{machine}/user-data":                 {"user-data", anyone, (*call).giveUserData},
	"GET /MAAS/nocloud/{machine}/vendor-data":               {"vendor-data", anyone, (*call).giveVendorData},
}

// serveMetadata answers a machine. Paths below nocloud are no MAAS's: a guest that
// stands for the hardware takes there, without a token, what a machine that is
// installed by MAAS asks for under its own.
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
		var event struct{ Name, Description, Result string }
		err := json.NewDecoder(req.Body).Decode(&event)
		form.Set("name", event.Name)
		form.Set("description", event.Description)
		form.Set("result", event.Result)
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

// giveUserData is what makes a machine Deployed: that the installed system asked.
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

// giveVendorData carries hardware sync if the deployment asked for it, with the
// names of files and units that MAAS gives them.
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

// signal is a machine telling how far it is. Any that stores results moves
// last_sync while the machine syncs; OK from a Deployed one sets it free.
func (c *call) signal() answer {
	m, status := c.machine, c.params.Get("status")
	if op := c.params.Get("op"); op != "signal" {
		return unrecognised(c.req.Method, op)
	}
	switch status {
	case "":
		return text(http.StatusBadRequest, "No value for field status")
	case "OK", "WORKING", "FAILED", "TESTING", "INSTALLING", "APPLYING_NETCONF":
	default:
		return text(http.StatusBadRequest, "Unknown commissioning/installation/entering-rescue-mode status: '%s'", status)
	}
	if !m.status.in(Commissioning, Deploying, Deployed, DiskErasing, Testing, EnteringRescueMode, RescueMode, FailedDeployment, FailedCommissioning) ||
		(m.status == Deployed && status == "FAILED") {
		return conflict("Machine wasn't commissioning/installing/entering-rescue-mode (status is %s)", m.status)
	}
	m.synced()
	switch at := m.status; {
	case status == "FAILED" && at == Deploying:
		m.fail(FailedDeployment, or(c.params.Get("error"), "Installation failed (refer to the installation log for more information)."))
	case status == "FAILED" && at == Commissioning:
		m.endRun(runFailed)
		m.fail(FailedCommissioning, or(c.params.Get("error"), "Commissioning failed, cloud-init reported a failure"))
		m.setOwner("")
	case status == "FAILED" && at == DiskErasing:
		m.fail(FailedDiskErasing, "Failed to erase disks.")
	case status == "OK" && at == Commissioning:
		m.commissionedOnce()
	case status == "OK" && at == DiskErasing:
		m.begin()
		m.enter(Releasing)
		m.after(m.timing().PowerOff, m.free)
	case status == "OK" && at == Deployed:
		m.begin()
		m.enter(Ready)
	}
	return text(http.StatusOK, "OK")
}

// report is cloud-init or curtin telling of a step of theirs.
func (c *call) report() answer {
	c.event(c.machine, debug, "Node status event", "'cloudinit' "+c.params.Get("name")+" "+c.params.Get("description"))
	return answer{code: http.StatusNoContent, ctype: textPlain}
}
