package maassim

import (
	"net/http"
	"strings"
)

// access is the permission that an operation requires.
type access int

const (
	anyone    access = iota // signed or not
	view                    // every user
	adminRead               // an administrator
	lock                    // the owner or an administrator, on a locked machine as well
	edit                    // the owner or an administrator, unless the machine is locked
	admin                   // an administrator, unless the machine is locked
)

// operation is a row of the tables below.
type operation struct {
	name string // the name in the log
	may  access
	do   func(*call) answer
}

// resource maps a method and op to the operation of a path.
type resource map[string]operation

// api is the whole simulated REST API, below /MAAS/api/2.0/.
var api = map[string]resource{
	"version/": {"GET": {"version", anyone, (*call).version}},
	"users/":   {"GET": {"users", view, (*call).listUsers}, "GET whoami": {"whoami", view, (*call).whoami}},
	"machines/": {
		"GET":                  {"list", view, (*call).listMachines},
		"GET list_allocated":   {"list_allocated", view, (*call).listAllocated},
		"GET power_parameters": {"power_parameters", adminRead, (*call).allPowerParameters},
		"POST":                 {"create", adminRead, (*call).create},
		"POST accept":          {"accept", adminRead, (*call).accept},
		"POST accept_all":      {"accept_all", adminRead, (*call).acceptAll},
		"POST allocate":        {"allocate", view, (*call).allocate},
		"POST release":         {"release_many", view, (*call).releaseMany},
	},
	"machines/{machine}/": {
		"GET":                           {"read", view, (*call).read},
		"PUT":                           {"update", admin, (*call).update},
		"DELETE":                        {"delete", admin, (*call).delete},
		"GET query_power_state":         {"query_power_state", view, (*call).queryPower},
		"GET power_parameters":          {"power_parameters", adminRead, (*call).powerParameters},
		"GET get_token":                 {"get_token", adminRead, (*call).getToken},
		"GET get_curtin_config":         {"get_curtin_config", adminRead, (*call).curtinConfig},
		"POST commission":               {"commission", admin, (*call).commission},
		"POST deploy":                   {"deploy", edit, (*call).deploy},
		"POST release":                  {"release", edit, (*call).release},
		"POST abort":                    {"abort", edit, (*call).abort},
		"POST mark_broken":              {"mark_broken", edit, (*call).markBroken},
		"POST mark_fixed":               {"mark_fixed", admin, (*call).markFixed},
		"POST power_on":                 {"power_on", edit, (*call).powerOn},
		"POST power_off":                {"power_off", edit, (*call).powerOff},
		"POST lock":                     {"lock", lock, (*call).lock},
		"POST unlock":                   {"unlock", lock, (*call).unlock},
		"POST test":                     {"test", admin, (*call).test},
		"POST override_failed_testing":  {"override_failed_testing", admin, (*call).overrideFailedTesting},
		"POST rescue_mode":              {"rescue_mode", admin, (*call).rescueMode},
		"POST exit_rescue_mode":         {"exit_rescue_mode", admin, (*call).exitRescueMode},
		"POST set_storage_layout":       {"set_storage_layout", admin, (*call).setStorageLayout},
		"POST clear_default_gateways":   {"clear_default_gateways", admin, (*call).clearDefaultGateways},
		"POST set_workload_annotations": {"set_workload_annotations", edit, (*call).annotate},
	},
	"nodes/{machine}/blockdevices/": {"GET": {"blockdevices", view, (*call).listDisks}},
	"nodes/{machine}/blockdevices/{id}/": {
		"GET":                {"blockdevice", view, (*call).readDisk},
		"POST set_boot_disk": {"set_boot_disk", admin, (*call).setBootDisk},
	},
	"nodes/{machine}/interfaces/": {"GET": {"interfaces", view, (*call).listInterfaces}},
	"nodes/{machine}/interfaces/{id}/": {
		"GET":                      {"interface", view, (*call).readInterface},
		"POST link_subnet":         {"link_subnet", admin, (*call).linkSubnet},
		"POST unlink_subnet":       {"unlink_subnet", admin, (*call).unlinkSubnet},
		"POST disconnect":          {"disconnect", admin, (*call).disconnect},
		"POST set_default_gateway": {"set_default_gateway", admin, (*call).setDefaultGateway},
	},
	"nodes/{machine}/results/": {"GET": {"results", view, (*call).listResults}},
	"subnets/": {
		"GET":  {"subnets", view, (*call).listSubnets},
		"POST": {"create_subnet", adminRead, (*call).createSubnet},
	},
	"subnets/{id}/": {"GET": {"subnet", view, (*call).readSubnet}},
	"fabrics/": {
		"GET":  {"fabrics", view, (*call).listFabrics},
		"POST": {"create_fabric", adminRead, (*call).createFabric},
	},
	"fabrics/{id}/":             {"GET": {"fabric", view, (*call).readFabric}},
	"fabrics/{id}/vlans/":       {"GET": {"vlans", view, (*call).listVLANs}, "POST": {"create_vlan", adminRead, (*call).createVLAN}},
	"fabrics/{id}/vlans/{vid}/": {"GET": {"vlan", view, (*call).readVLAN}},
	"events/":                   {"GET query": {"events", view, (*call).queryEvents}},
	"notifications/":            {"GET": {"notifications", view, (*call).listNotifications}},
	"maas/": {
		"GET get_config":  {"get_config", adminRead, (*call).getConfig},
		"POST set_config": {"set_config", adminRead, (*call).setConfig},
	},
	"rackcontrollers/": {
		"GET":                      {"racks", view, (*call).listRacks},
		"GET describe_power_types": {"describe_power_types", view, (*call).powerTypes},
	},
	"rackcontrollers/{rack}/": {
		"GET":                  {"rack", view, (*call).readRack},
		"GET list_boot_images": {"list_boot_images", view, (*call).listBootImages},
	},
	"boot-resources/":        {"GET": {"boot_resources", view, (*call).listBootResources}},
	"scripts/":               {"GET": {"scripts", view, (*call).listScripts}},
	"scripts/{name}":         {"GET": {"script", view, (*call).readScript}},
	"commissioning-scripts/": {"GET": {"commissioning_scripts", view, (*call).listCommissioningScripts}},
	"resourcepools/":         {"GET": {"pools", view, (*call).listPools}, "POST": {"create_pool", adminRead, (*call).createPool}},
	"zones/":                 {"GET": {"zones", view, (*call).listZones}},
	"tags/":                  {"GET": {"tags", view, (*call).listTags}},
}

// anonymous are the collections that MAAS also serves without a signature; no such operation is
// simulated.
var anonymous = map[string]bool{"machines/": true}

const apiRoot = "/MAAS/api/2.0/"

func (r *Region) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for path, res := range api {
		end := "{$}"
		if !strings.HasSuffix(path, "/") {
			end = ""
		}
		mux.HandleFunc(apiRoot+path+end, func(w http.ResponseWriter, req *http.Request) { r.serve(w, req, path, res) })
	}
	for pattern, op := range metadata {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) { r.serveMetadata(w, req, op) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		a := text(http.StatusNotFound, "Unknown API endpoint: %s.", req.URL.Path)
		a.write(w, r)
	})
	return mux
}
