package maassim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/maassim"
)

// record is one answer of a region of 3.4.10 to an operation in a status.
type record struct {
	Op            string          `json:"op"`
	Start         string          `json:"start"`
	Power         string          `json:"power"`
	PowerFails    bool            `json:"power_fails"`
	HTTP          int             `json:"http"`
	CType         string          `json:"ctype"`
	Body          json.RawMessage `json:"body"`
	BodyStatus    string          `json:"body_status_name"`
	AfterResponse string          `json:"after_response"`
	Settled       string          `json:"settled"`
	OwnerKept     bool            `json:"owner_kept"`
	PowerSettled  string          `json:"power_settled"`
}

// recorded maps the statuses as the records spell them.
var recorded = map[string]maassim.Status{
	"New": maassim.New, "Commissioning": maassim.Commissioning, "FailedCommissioning": maassim.FailedCommissioning, "Missing": maassim.Missing,
	"Ready": maassim.Ready, "Reserved": maassim.Reserved, "Deployed": maassim.Deployed, "Retired": maassim.Retired, "Broken": maassim.Broken,
	"Deploying": maassim.Deploying, "Allocated": maassim.Allocated, "FailedDeployment": maassim.FailedDeployment, "Releasing": maassim.Releasing,
	"ReleasingFailed": maassim.ReleasingFailed, "DiskErasing": maassim.DiskErasing, "FailedDiskErasing": maassim.FailedDiskErasing,
	"RescueMode": maassim.RescueMode, "EnteringRescueMode": maassim.EnteringRescueMode, "FailedEnteringRescueMode": maassim.FailedEnteringRescueMode,
	"ExitingRescueMode": maassim.ExitingRescueMode, "FailedExitingRescueMode": maassim.FailedExitingRescueMode, "Testing": maassim.Testing,
	"FailedTesting": maassim.FailedTesting,
}

// ownerless are the statuses in which the recorded machine had no owner.
var ownerless = map[string]bool{"New": true, "FailedCommissioning": true, "Missing": true, "Ready": true, "Retired": true, "Broken": true}

// bench is a region like the recorded region: a machine is off when the call that switched it off
// is answered, and no other process ever ends.
func bench() (*maassim.Region, *clock) {
	never := time.Hour
	clock := newClock()
	r := &maassim.Region{
		Version: "3.4.10", Seed: 1, Now: clock.Now, OAuthNow: wallClock, Images: []maassim.Image{{Name: "ubuntu/jammy"}, {Name: "custom/golden"}},
		Timing: maassim.Timing{
			Enlist: never, Commission: never, Test: never, Address: never, Token: never, Deploy: never, PhoneHome: never, Erase: never, Rescue: never,
			NodeTimeout: never, ReleaseTimeout: never,
		},
		Networks: []maassim.Network{{CIDR: "10.10.0.0/24", Gateway: "10.10.0.1", DHCP: true}},
	}
	return r, clock
}

// recordedBox is the hardware of the recorded machine.
func recordedBox() maassim.Hardware {
	return maassim.Hardware{
		NICs:  []maassim.NIC{{Name: "eth0", MAC: "52:54:00:00:00:02"}},
		Disks: []maassim.Disk{{Name: "sda", Model: "M", Serial: "S1", Size: 100000000000}},
		BMC:   maassim.BMC{Address: "127.0.0.9", User: "u", Password: "p"},
	}
}

const recordedID = "abc123"

func TestEveryRecordedAnswerIsGiven(t *testing.T) {
	var oracle struct{ Records []record }
	load(t, "testdata/maas-oracle-3.4.10.json", &oracle)
	if len(oracle.Records) != 582 {
		t.Fatalf("%d records, want 582", len(oracle.Records))
	}
	for _, rec := range oracle.Records {
		t.Run(fmt.Sprintf("%s/%s/%s/%v", rec.Op, rec.Start, rec.Power, rec.PowerFails), func(t *testing.T) { rec.replay(t) })
	}
}

func (rec record) replay(t *testing.T) {
	r, clock := bench()
	owner := "admin"
	if ownerless[rec.Start] {
		owner = ""
	}
	r.Arrange(maassim.Arranged{
		SystemID: recordedID, Hostname: "m2", Hardware: recordedBox(), Status: recorded[rec.Start], Previous: maassim.Ready, Owner: owner,
		Token: true, Uncommissioned: true, PowerOn: rec.Power == "on",
	})
	if rec.PowerFails {
		r.Inject(maassim.Fault{Kind: maassim.PowerFails, Times: -1})
	}
	r.SetRack(!rec.withoutRack())
	res, body := rec.ask(t, r)
	if res.StatusCode != rec.HTTP {
		t.Errorf("code %d, want %d", res.StatusCode, rec.HTTP)
	}
	if ctype, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); ctype != rec.CType {
		t.Errorf("content type %s, want %s", ctype, rec.CType)
	}
	rec.compare(t, body)
	is := func(when, want string) {
		t.Helper()
		if m, _ := r.Machine(recordedID); m.Status != recorded[want] {
			t.Errorf("%s in %v, want %s", when, m.Status, want)
		}
	}
	is("when answered", rec.AfterResponse)
	clock.pass(500 * time.Millisecond)
	is("half a second later", rec.Settled)
	m, _ := r.Machine(recordedID)
	if (m.Owner != "") != rec.OwnerKept {
		t.Errorf("owner %q, want one: %v", m.Owner, rec.OwnerKept)
	}
	if m.PowerState != rec.PowerSettled {
		t.Errorf("power %s, want %s", m.PowerState, rec.PowerSettled)
	}
}

// withoutRack reports whether the recorded answer was caused only by the recorded region's lack of
// a rack controller.
func (rec record) withoutRack() bool {
	return strings.HasPrefix(string(rec.Body), `"<500 here only because the test bench had no rack controller`)
}

// ask performs the record's call.
func (rec record) ask(t *testing.T, r *maassim.Region) (*http.Response, []byte) {
	machine := "machines/" + recordedID + "/"
	form := url.Values{}
	method, path, op := http.MethodPost, machine, rec.Op
	switch rec.Op {
	case "get_token", "get_curtin_config":
		method = http.MethodGet
	case "allocate":
		path = "machines/"
		form.Set("system_id", recordedID)
	case "accept":
		path = "machines/"
		form.Set("machines", recordedID)
	case "release_erase":
		op = "release"
		form.Set("erase", "true")
		form.Set("quick_erase", "true")
	case "set_storage_layout":
		form.Set("storage_layout", "flat")
	case "set_boot_disk":
		path = "nodes/" + recordedID + "/blockdevices/1/"
	case "link_subnet":
		path = "nodes/" + recordedID + "/interfaces/1/"
		form = url.Values{"mode": {"AUTO"}, "subnet": {"1"}, "force": {"true"}}
	}
	return send(t, r, r.APIKey(), method, path+"?op="+op, form)
}

// compare compares a body with the record's body. Angle brackets in the record mark values that
// differ between machines.
func (rec record) compare(t *testing.T, body []byte) {
	var want any
	if err := json.Unmarshal(rec.Body, &want); err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(body, &got); err != nil {
		got = string(body)
	}
	object, _ := got.(map[string]any)
	switch want {
	case "machine":
		if object["system_id"] != recordedID || object["status_name"] != rec.BodyStatus {
			t.Errorf("machine %v in %v, want %s", object["system_id"], object["status_name"], rec.BodyStatus)
		}
		return
	case "object":
		if object["resource_uri"] == nil {
			t.Errorf("%s is no object", body)
		}
		return
	case "machine list":
		list, _ := got.([]any)
		if len(list) != 1 || list[0].(map[string]any)["status_name"] != rec.BodyStatus {
			t.Errorf("list of %d, want one machine in %s", len(list), rec.BodyStatus)
		}
		return
	case "long text", "<power driver's error text>":
		if _, is := got.(string); !is || len(body) < 20 {
			t.Errorf("%q is no long text", body)
		}
		return
	}
	if rec.withoutRack() {
		return
	}
	likeness(t, want, got)
}

// likeness compares values. <18 chars> in a text matches any text of that length, <name> any name.
func likeness(t *testing.T, want, got any) {
	t.Helper()
	text, is := want.(string)
	if object, isObject := want.(map[string]any); isObject {
		for key := range object {
			likeness(t, object[key], got.(map[string]any)[key])
		}
		return
	}
	if !is {
		if a, b := fmt.Sprint(want), fmt.Sprint(got); a != b {
			t.Errorf("got %s, want %s", b, a)
		}
		return
	}
	pattern := regexp.QuoteMeta(text)
	pattern = regexp.MustCompile(`<(\d+) chars>`).ReplaceAllString(pattern, `[a-zA-Z0-9]{$1}`)
	pattern = regexp.MustCompile(`<hostname>`).ReplaceAllString(pattern, `[a-z0-9.-]+`)
	if s, _ := got.(string); !regexp.MustCompile("^" + pattern + "$").MatchString(s) {
		t.Errorf("got %q, want %q", s, text)
	}
}

func load(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
