package maassim_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/hostler/hostler/test/maassim"
)

// MAAS's refusals, in its own words. A refused call changes nothing.
func TestRefusals(t *testing.T) {
	r, _, _ := start(t, "3.6")
	box := maassim.Box(1)
	ready := r.Arrange(maassim.Arranged{Hostname: "m2", Hardware: box, Status: maassim.Ready})
	annes := r.Arrange(maassim.Arranged{Hostname: "m3", Hardware: maassim.Box(2), Status: maassim.Allocated, Owner: "anne"})
	bare := maassim.Box(3)
	bare.NICs, bare.Disks = bare.NICs[:1], nil
	diskless := r.Arrange(maassim.Arranged{Hostname: "m4", Hardware: bare, Status: maassim.Ready})
	var body struct {
		Interfaces []struct{ ID int } `json:"interface_set"`
		Disks      []struct{ ID int } `json:"blockdevice_set"`
	}
	read(t, r, "machines/"+ready+"/", &body)
	nic := "nodes/" + ready + "/interfaces/1/"
	for _, tc := range []struct {
		path string
		form string
		code int
		want string
	}{
		{"machines/", "hostname=m2&power_type=ipmi&power_parameters_power_address=10.0.0.9", 400, `{"hostname":["Node with this Hostname already exists."]}`},
		{"machines/", "hostname=a_b&power_type=ipmi&power_parameters_power_address=10.0.0.9", 400, `"hostname"`},
		{"machines/", "power_type=manual&architecture=amd64/generic", 400, `{"power_type":["Can't set power type to manual without network interfaces"]}`},
		{"machines/", "power_type=ipmi&power_parameters_power_address=10.0.0.9&mac_addresses=" + box.NICs[0].MAC, 400, `{"mac_addresses":["MAC address ` + box.NICs[0].MAC + ` already in use on m2."]}`},
		{"machines/", "power_type=ipmi&power_parameters_power_address=10.0.0.9&mac_addresses=no", 400, `"mac_addresses"`},
		{"machines/", "power_type=ipmi&power_parameters_power_address=10.0.0.9&architecture=x", 400, `{"architecture":["'x' is not a valid architecture.`},
		{"machines/", "power_type=ipmi&power_parameters_power_address=10.0.0.9&pool=x", 400, `"pool"`},
		{"machines/", "power_type=steam&mac_addresses=02:00:00:00:00:09", 400, `"power_type"`},
		{"machines/", "power_type=ipmi", 400, `"power_parameters"`},
		{"machines/?op=allocate", "system_id=" + annes, 409, "No machine with system ID " + annes + " available."},
		{"machines/?op=allocate", "name=none", 409, "No available machine matches constraints: name=none"},
		{"machines/?op=release", "machines=" + ready + "&machines=zzzzzz", 400, "Unknown machine(s): zzzzzz."},
		{"machines/" + ready + "/?op=deploy", "distro_series=x", 400, `{"distro_series":["'x' is not a valid distro_series.  It should be one of: `},
		{"machines/" + ready + "/?op=deploy", "enable_hw_sync=often", 400, "Invalid enable_hw_sync: Value should be 'true' or 'false'"},
		{"machines/" + ready + "/?op=deploy", "install_rackd=true", 400, "rack controller"},
		{"machines/" + diskless + "/?op=deploy", "", 400, `{"storage":["Mount the root '/' filesystem to be able to deploy this node."]}`},
		{"machines/" + diskless + "/?op=set_storage_layout", "storage_layout=flat", 400, "storage devices"},
		{"machines/" + ready + "/?op=set_storage_layout", "", 400, `{"storage_layout":["This field is required."]}`},
		{"machines/" + ready + "/?op=set_storage_layout", "storage_layout=heap", 400, "'heap' is not a valid storage layout."},
		{"machines/" + ready + "/?op=set_workload_annotations", "run=1", 409, ""},
		{"machines/" + annes + "/?op=set_workload_annotations", "run=1", 409, ""},
		{"machines/" + annes + "/?op=mark_broken", "", 403, ""},
		{"nodes/" + ready + "/blockdevices/99/?op=set_boot_disk", "", 404, ""},
		{nic + "?op=link_subnet", "mode=AUTO&subnet=999", 400, `{"subnet":["None found with id=999.","This field is required."]}`},
		{nic + "?op=link_subnet", "mode=AUTO", 400, `{"subnet":["This field is required."]}`},
		{nic + "?op=link_subnet", "mode=STATIC&subnet=1&ip_address=10.99.0.1", 400, `{"ip_address":["IP address is not in the given subnet '10.10.0.0/24'."]}`},
		{nic + "?op=link_subnet", "mode=MAGIC&subnet=1", 400, `"mode"`},
		{nic + "?op=unlink_subnet", "id=999", 400, `"id"`},
		{"nodes/" + ready + "/interfaces/99/?op=link_subnet", "mode=AUTO&subnet=1", 404, ""},
	} {
		form, err := url.ParseQuery(tc.form)
		if err != nil {
			t.Fatal(err)
		}
		before := r.Machines()
		res, got := send(t, r, r.APIKey(), http.MethodPost, tc.path, form)
		if res.StatusCode != tc.code || !strings.Contains(string(got), tc.want) {
			t.Errorf("%s %s: %d %s, want %d %s", tc.path, tc.form, res.StatusCode, got, tc.code, tc.want)
		}
		if same(t, before) != same(t, r.Machines()) {
			t.Errorf("%s %s changed something", tc.path, tc.form)
		}
	}
}

func same(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
