package redfishsim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

const (
	root         = "/redfish/v1"
	sessionsPath = root + "/SessionService/Sessions"
	maxBody      = 64 << 10
)

// ServeHTTP answers one request. Requests are answered one after another.
func (b *BMC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(io.LimitReader(r.Body, maxBody))
	request := Request{r.Method, r.URL.Path, string(raw)}
	b.mu.Lock()
	b.requests = append(b.requests, request)
	hangs := b.faults.Hangs
	b.mu.Unlock()
	if hangs {
		<-r.Context().Done()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	if b.faults.Busy > 0 {
		b.faults.Busy--
		w.Header().Set("Retry-After", "30")
		b.fail(w, http.StatusServiceUnavailable, "Base.1.8.ServiceTemporarilyUnavailable", request)
		return
	}
	b.route(w, r, request)
}

func (b *BMC) route(w http.ResponseWriter, r *http.Request, request Request) {
	system := root + "/Systems/" + b.system()
	switch path := r.URL.Path; {
	case r.Method == http.MethodGet && same(path, root):
		b.serviceRoot(w)
		return
	case r.Method == http.MethodPost && same(path, sessionsPath):
		b.login(w, request)
		return
	case !b.permitted(r):
		b.fail(w, http.StatusUnauthorized, "Base.1.8.NoValidSession", request)
		return
	case r.Method == http.MethodDelete && strings.HasPrefix(path, sessionsPath+"/"):
		delete(b.sessions, strings.TrimPrefix(path, sessionsPath+"/"))
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method == http.MethodGet && same(path, root+"/Systems"):
		b.systems(w, system)
	case r.Method == http.MethodGet && same(path, system):
		b.describe(w, system)
	case r.Method == http.MethodGet && same(path, system+"/ResetActionInfo"):
		answer(w, http.StatusOK, map[string]any{
			"@odata.type": "#ActionInfo.v1_1_2.ActionInfo", "@odata.id": path, "Id": "ResetActionInfo", "Name": "Reset Action Info",
			"Parameters": []map[string]any{{"Name": "ResetType", "Required": true, "DataType": "String", "AllowableValues": b.allowed()}},
		})
	case r.Method == http.MethodPost && same(path, system+"/Actions/ComputerSystem.Reset"):
		b.reset(w, request)
	default:
		b.fail(w, http.StatusNotFound, "Base.1.8.ResourceMissingAtURI", request)
	}
	if b.faults.Expires {
		clear(b.sessions)
		b.faults.Expires = false
	}
}

func (b *BMC) serviceRoot(w http.ResponseWriter) {
	body := map[string]any{
		"@odata.type": "#ServiceRoot.v1_5_2.ServiceRoot", "@odata.id": root + "/", "Id": "RootService", "Name": "Root Service",
		"RedfishVersion": "1.8.0", "Vendor": string(b.Make), "Systems": b.link(root + "/Systems"),
	}
	if !b.faults.NoSessions {
		body["SessionService"] = b.link(root + "/SessionService")
		body["Links"] = map[string]any{"Sessions": b.link(sessionsPath)}
	}
	answer(w, http.StatusOK, body)
}

// login makes a session.
func (b *BMC) login(w http.ResponseWriter, request Request) {
	var in struct{ UserName, Password string }
	switch {
	case b.faults.NoSessions:
		b.fail(w, http.StatusNotFound, "Base.1.8.ResourceMissingAtURI", request)
		return
	case json.Unmarshal([]byte(request.Body), &in) != nil || in.UserName != b.User || in.Password != b.Password:
		b.fail(w, http.StatusUnauthorized, "Base.1.8.ResourceAtUriUnauthorized", request)
		return
	}
	b.count++
	id := fmt.Sprintf("%d", b.count)
	b.sessions[id] = true
	w.Header().Set("X-Auth-Token", "token-"+id)
	w.Header().Set("Location", sessionsPath+"/"+id)
	answer(w, http.StatusCreated, map[string]any{
		"@odata.type": "#Session.v1_1_1.Session", "@odata.id": sessionsPath + "/" + id, "Id": id, "Name": "User Session", "UserName": in.UserName,
	})
}

func (b *BMC) permitted(r *http.Request) bool {
	if token, ok := strings.CutPrefix(r.Header.Get("X-Auth-Token"), "token-"); ok {
		return b.sessions[token]
	}
	user, password, ok := r.BasicAuth()
	return ok && user == b.User && password == b.Password
}

func (b *BMC) systems(w http.ResponseWriter, system string) {
	if to := b.faults.Redirect; to != "" {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	link := b.link(system)
	if b.faults.Link != "" {
		link = map[string]string{"@odata.id": b.faults.Link}
	}
	body := map[string]any{
		"@odata.type": "#ComputerSystemCollection.ComputerSystemCollection", "@odata.id": root + "/Systems", "Name": "Systems",
		"Members@odata.count": 1, "Members": []any{link},
	}
	if b.faults.Long {
		body["Description"] = strings.Repeat("x", 2<<20)
	}
	answer(w, http.StatusOK, body)
}

// allowed are the types of a reset that the maker knows.
func (b *BMC) allowed() []string {
	switch b.Make {
	case Dell:
		return []string{"On", "ForceOff", "ForceRestart", "GracefulShutdown", "PushPowerButton", "Nmi", "PowerCycle"}
	case HPE:
		return []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton", "GracefulRestart"}
	case Supermicro:
		return []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn"}
	}
	return []string{"On", "ForceOff", "ForceOn", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PowerCycle", "Nmi"}
}

func (b *BMC) describe(w http.ResponseWriter, system string) {
	if b.faults.Body != "" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, b.faults.Body)
		return
	}
	serial, uuid := b.Serial, b.UUID
	if b.faults.Serial != "" {
		serial = b.faults.Serial
	}
	if b.faults.UUID != "" {
		uuid = b.faults.UUID
	}
	reset := map[string]any{"target": system + "/Actions/ComputerSystem.Reset"}
	body := map[string]any{
		"@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem", "@odata.id": system, "@odata.etag": `W/"7A3B1C"`, "Id": b.system(),
		"Name": "System", "SystemType": "Physical", "Manufacturer": string(b.Make), "Model": "Box 9000", "SerialNumber": serial,
		"SKU": "870492-B21", "UUID": uuid, "PowerState": b.state(), "HostName": "",
		"Status":           map[string]any{"Health": "OK", "State": "Enabled"},
		"ProcessorSummary": map[string]any{"Count": 2, "Model": "CPU"}, "MemorySummary": map[string]any{"TotalSystemMemoryGiB": 1024},
		"Actions": map[string]any{"#ComputerSystem.Reset": reset},
	}
	switch b.Make {
	case Dell:
		body["Manufacturer"], body["SerialNumber"], body["SKU"] = "Dell Inc.", "CNIVC0099X0123", serial
		reset["ResetType@Redfish.AllowableValues"] = b.allowed()
	case HPE:
		reset["@Redfish.ActionInfo"] = system + "/ResetActionInfo/"
		reset["target"] = system + "/Actions/ComputerSystem.Reset/"
	default:
		reset["ResetType@Redfish.AllowableValues"] = b.allowed()
	}
	answer(w, http.StatusOK, body)
}

// reset carries a reset out.
func (b *BMC) reset(w http.ResponseWriter, request Request) {
	var in struct{ ResetType string }
	if json.Unmarshal([]byte(request.Body), &in) != nil || !slices.Contains(b.allowed(), in.ResetType) {
		b.fail(w, http.StatusBadRequest, "Base.1.8.ActionParameterNotSupported", request)
		return
	}
	on := map[string]bool{"On": true, "ForceOn": true, "ForceRestart": true, "GracefulRestart": true, "PowerCycle": true}[in.ResetType]
	if on == b.on && (in.ResetType == "On" || strings.HasSuffix(in.ResetType, "Off") || in.ResetType == "GracefulShutdown") {
		switch b.Make {
		case Dell:
			b.fail(w, http.StatusConflict, "IDRAC.2.4.PSU501", request)
			return
		case HPE:
			b.fail(w, http.StatusBadRequest, "iLO.2.14.InvalidOperationForSystemState", request)
			return
		}
	}
	b.begin(on)
	switch b.Make {
	case HPE:
		answer(w, http.StatusOK, map[string]any{"error": map[string]any{
			"code": "iLO.0.10.ExtendedInfo", "message": "See @Message.ExtendedInfo for more information.",
			"@Message.ExtendedInfo": []map[string]any{{"MessageId": "Base.1.4.Success"}},
		}})
	case Supermicro:
		w.Header().Set("Location", root+"/TaskService/TaskMonitors/1")
		answer(w, http.StatusAccepted, map[string]any{
			"@odata.type": "#Task.v1_4_3.Task", "@odata.id": root + "/TaskService/Tasks/1", "Id": "1", "Name": "Reset", "TaskState": "Running",
		})
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
