package maassim_test

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/test/maassim"
)

// ask sends a machine's request to the metadata service, with the machine's token or, for "",
// without.
func ask(t *testing.T, r *maassim.Region, key, method, path string, form url.Values) (int, string) {
	t.Helper()
	req := httptest.NewRequest(method, "http://rack:5248/MAAS/"+path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		req.Header.Set("Authorization", signature(key, wallClock().Unix(), rand.Text()))
	}
	res, body := do(t, r, req)
	return res.StatusCode, string(body)
}

const service = "metadata/2012-03-01/"

// The installed system's request for its user-data makes the machine Deployed.
func TestAskingForUserDataMakesTheMachineDeployed(t *testing.T) {
	r, clock, _ := start(t, "3.6")
	box := maassim.Box(1)
	box.Guest = &stub{}
	id := r.Arrange(maassim.Arranged{Hardware: box, Status: maassim.Allocated, Owner: "admin"})
	send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=deploy", url.Values{"user_data": {"#!/bin/true"}})
	clock.pass(maassim.Usual.Deploy + time.Minute)
	if got := status(t, r, id); got != maassim.Deploying {
		t.Fatalf("%v before it asked", got)
	}
	key := tokenKey(t, r, id)
	for path, want := range map[string]string{"meta-data/instance-id": id, "meta-data/": "local-hostname"} {
		if code, body := ask(t, r, key, http.MethodGet, service+path, nil); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if got := status(t, r, id); got != maassim.Deploying {
		t.Fatalf("%v for its meta-data", got)
	}
	for _, key := range []string{"", r.APIKey(), "a:b:c"} {
		if code, _ := ask(t, r, key, http.MethodGet, service+"user-data", nil); code != http.StatusUnauthorized && code != http.StatusForbidden {
			t.Errorf("let in: %d", code)
		}
	}
	if code, body := ask(t, r, key, http.MethodGet, service+"user-data", nil); code != http.StatusOK || body != "#!/bin/true" {
		t.Errorf("%d %s", code, body)
	}
	if got := status(t, r, id); got != maassim.Deployed {
		t.Errorf("%v after it asked", got)
	}
	if code, _ := ask(t, r, key, http.MethodGet, service+"maas-scripts", nil); code != http.StatusNoContent {
		t.Errorf("maas-scripts: %d", code)
	}
}

func TestAGuestTakesItsDataWithoutAToken(t *testing.T) {
	r, _, id := allocated(t, "3.6")
	send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=deploy", url.Values{"user_data": {"#!/bin/true"}})
	if code, body := ask(t, r, "", http.MethodGet, "nocloud/"+id+"/meta-data", nil); code != http.StatusOK || !strings.Contains(body, "instance-id: "+id) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := ask(t, r, "", http.MethodGet, "nocloud/"+id+"/user-data", nil); code != http.StatusOK || body != "#!/bin/true" {
		t.Errorf("%d %s", code, body)
	}
	if got := status(t, r, id); got != maassim.Deployed {
		t.Error(got)
	}
	if code, _ := ask(t, r, "", http.MethodGet, "nocloud/zzzzzz/user-data", nil); code != http.StatusNotFound {
		t.Errorf("%d", code)
	}
}

// The effect of a signal depends on the status; OK from a Deployed machine makes it Ready.
func TestSignals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		from   maassim.Status
		signal string
		sync   bool
		code   int
		to     maassim.Status
		synced bool
	}{
		{"an installation that failed", maassim.Deploying, "FAILED", false, 200, maassim.FailedDeployment, false},
		{"an installation that goes on", maassim.Deploying, "WORKING", false, 200, maassim.Deploying, false},
		{"commissioning that failed", maassim.Commissioning, "FAILED", false, 200, maassim.FailedCommissioning, false},
		{"commissioning that is done", maassim.Commissioning, "OK", false, 200, maassim.Ready, false},
		{"commissioning that goes on to tests", maassim.Commissioning, "TESTING", false, 200, maassim.Testing, false},
		{"tests that passed", maassim.Testing, "OK", false, 200, maassim.Deployed, false},
		{"tests that failed", maassim.Testing, "FAILED", false, 200, maassim.FailedTesting, false},
		{"rescue mode that is entered", maassim.EnteringRescueMode, "WORKING", false, 200, maassim.RescueMode, false},
		{"rescue mode that is not", maassim.EnteringRescueMode, "FAILED", false, 200, maassim.FailedEnteringRescueMode, false},
		{"disks that cannot be erased", maassim.DiskErasing, "FAILED", false, 200, maassim.FailedDiskErasing, false},
		{"disks that are erased, but not yet released", maassim.DiskErasing, "OK", false, 200, maassim.DiskErasing, false},
		{"a deployed host that goes to be tested", maassim.Deployed, "TESTING", true, 200, maassim.Testing, true},
		{"a machine that nobody deployed", maassim.Allocated, "WORKING", false, 409, maassim.Allocated, false},
		{"a deployed host cannot fail", maassim.Deployed, "FAILED", false, 409, maassim.Deployed, false},
		{"a deployed host that syncs", maassim.Deployed, "WORKING", true, 200, maassim.Deployed, true},
		{"a deployed host that does not sync", maassim.Deployed, "WORKING", false, 200, maassim.Deployed, false},
		{"a deployed host that sets itself free", maassim.Deployed, "OK", false, 200, maassim.Ready, false},
		{"a broken machine, of which nothing comes", maassim.Broken, "OK", false, 200, maassim.Broken, false},
		{"a signal that there is none", maassim.Deployed, "BORED", false, 400, maassim.Deployed, false},
		{"a signal without a status", maassim.Deployed, "", false, 400, maassim.Deployed, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, clock, _ := start(t, "3.6")
			box := maassim.Box(1)
			box.Guest = &stub{}
			id := r.Arrange(maassim.Arranged{Hardware: box, Status: tc.from, Previous: maassim.Deployed, Owner: "admin", Token: true, HWSync: tc.sync, PowerOn: true})
			key := tokenKey(t, r, id)
			clock.pass(10 * time.Minute)
			before, _ := r.Machine(id)
			if code, body := ask(t, r, key, http.MethodPost, service, url.Values{"op": {"signal"}, "status": {tc.signal}}); code != tc.code {
				t.Errorf("%d %s, want %d", code, body, tc.code)
			}
			m, _ := r.Machine(id)
			if m.Status != tc.to || m.LastSync.After(before.LastSync) != tc.synced {
				t.Errorf("%v, synced at %v; want %v", m.Status, m.LastSync, tc.to)
			}
			if m.Status == maassim.Ready && m.Owner != "" {
				t.Errorf("owner %s", m.Owner)
			}
		})
	}
}

// The vendor-data contains MAAS's own units, and running them moves last_sync.
func TestVendorDataBringsHardwareSync(t *testing.T) {
	wall := newClock()
	wall.now = wallClock().Add(-time.Hour)
	r := &maassim.Region{Version: "3.6", Now: wall.Now, OAuthNow: wallClock}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	box := maassim.Box(1)
	box.Guest = &stub{}
	id := r.Arrange(maassim.Arranged{Hardware: box, Status: maassim.Allocated, Owner: "admin"})
	send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=deploy", url.Values{"enable_hw_sync": {"true"}})
	get := func(path string) []byte {
		t.Helper()
		res, err := http.Get(server.URL + "/MAAS/" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	var data struct {
		WriteFiles []struct{ Path, Content, Permissions string } `yaml:"write_files"`
		RunCmd     [][]string                                    `yaml:"runcmd"`
	}
	get("nocloud/" + id + "/user-data")
	if err := yaml.Unmarshal(get("nocloud/"+id+"/vendor-data"), &data); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range data.WriteFiles {
		files[f.Path] = f.Content
	}
	creds := files["/etc/maas/maas-machine-creds.yml"]
	timer := files["/lib/systemd/system/maas_hardware_sync.timer"]
	unit := files["/lib/systemd/system/maas_hardware_sync.service"]
	if !strings.Contains(timer, "OnCalendar=*-*-* *:00/15:00\n") || !strings.Contains(unit, server.URL+"/MAAS/maas-run-scripts") || len(data.RunCmd) != 3 {
		t.Fatalf("timer %q, service %q, %v", timer, unit, data.RunCmd)
	}
	if token, _ := r.Machine(id); token.Token == "" || !strings.Contains(creds, token.Token) || strings.Contains(creds, "consumer_secret") {
		t.Fatalf("creds for token %q", token.Token)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("there is no python3 to run what the units run (.ci/setup test installs it)")
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"maas-run-scripts": get("maas-run-scripts"), "creds.yml": []byte(creds)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wall.pass(time.Minute)
	before, _ := r.Machine(id)
	out, err := exec.CommandContext(t.Context(), python, filepath.Join(dir, "maas-run-scripts"), "report-results", "--config", filepath.Join(dir, "creds.yml")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if m, _ := r.Machine(id); m.LastSync.Sub(before.LastSync) != time.Minute {
		t.Errorf("last_sync moved by %v: %s", m.LastSync.Sub(before.LastSync), out)
	}
}

// cloud-init reports only at the address of its own machine's token. The end of a whole part may
// fail an installation or end an erasure.
func TestReportsAreOfTheMachineItself(t *testing.T) {
	for _, tc := range []struct {
		from   maassim.Status
		by     int // of two machines
		report string
		code   int
		to     maassim.Status
	}{
		{maassim.Deploying, 0, `{"name": "modules-final", "event_type": "start"}`, 204, maassim.Deploying},
		{maassim.Deploying, 0, `{"name": "cmd-install/stage-late", "event_type": "finish", "result": "FAIL"}`, 204, maassim.Deploying},
		{maassim.Deploying, 0, `{"name": "cmd-install", "event_type": "finish", "result": "FAIL"}`, 204, maassim.FailedDeployment},
		{maassim.Deploying, 1, `{"name": "cmd-install", "event_type": "finish", "result": "FAIL"}`, 403, maassim.Deploying},
		{maassim.Deploying, 2, `{"name": "cmd-install", "event_type": "finish", "result": "FAIL"}`, 401, maassim.Deploying},
		{maassim.Deploying, 0, `{`, 400, maassim.Deploying},
		{maassim.Commissioning, 0, `{"name": "modules-final", "event_type": "finish", "result": "FAIL"}`, 204, maassim.FailedCommissioning},
		{maassim.DiskErasing, 0, `{"name": "modules-final", "event_type": "finish", "result": "SUCCESS"}`, 204, maassim.Releasing},
		{maassim.DiskErasing, 0, `{"name": "modules-final", "event_type": "finish", "result": "FAIL"}`, 204, maassim.FailedDiskErasing},
		{maassim.Deployed, 0, `{"name": "modules-final", "event_type": "finish", "result": "FAIL"}`, 204, maassim.Deployed},
	} {
		r, _, c := start(t, "3.6")
		id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: tc.from, Owner: "admin", Token: true, PowerOn: true})
		other := r.Arrange(maassim.Arranged{Hardware: maassim.Box(2), Status: maassim.Deploying, Owner: "admin", Token: true})
		req := httptest.NewRequest(http.MethodPost, "/MAAS/metadata/status/"+id, strings.NewReader(tc.report))
		req.Header.Set("Content-Type", "application/json")
		if tc.by < 2 {
			req.Header.Set("Authorization", signature(tokenKey(t, r, []string{id, other}[tc.by]), wallClock().Unix(), rand.Text()))
		}
		if res, body := do(t, r, req); res.StatusCode != tc.code {
			t.Errorf("%v, %s: %d %s, want %d", tc.from, tc.report, res.StatusCode, body, tc.code)
		}
		if m, _ := r.Machine(id); m.Status != tc.to || (m.Status == maassim.FailedCommissioning && m.Owner != "") {
			t.Errorf("%v, %s: then %v of %q, want %v", tc.from, tc.report, m.Status, m.Owner, tc.to)
		}
		events, err := c.Events.Get(everything(id))
		if told := slices.Contains(kinds(events), "Node status event"); err != nil || told != (tc.code == 204) {
			t.Errorf("%v, %s: told %v, %v", tc.from, tc.report, told, err)
		}
	}
}
