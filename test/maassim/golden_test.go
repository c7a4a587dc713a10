package maassim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/hostler/hostler/test/maassim"
)

// sample is a whole answer of the recorded region.
type sample struct {
	Method      string          `json:"method"`
	Path        string          `json:"path"`
	Params      [][2]string     `json:"params"`
	Status      int             `json:"status"`
	ContentType string          `json:"content_type"`
	Body        json.RawMessage `json:"body"`
}

// Every recorded body matches the simulator's body all the way down: the same keys, the same JSON
// types, null included, and the same form of value.
func TestEveryRecordedBodyHasItsShape(t *testing.T) {
	var golden struct{ Samples map[string]sample }
	load(t, "testdata/maas-golden-3.4.10.json", &golden)
	if len(golden.Samples) != 23 {
		t.Fatalf("%d samples, want 23", len(golden.Samples))
	}
	for _, name := range slices.Sorted(maps.Keys(golden.Samples)) {
		t.Run(name, func(t *testing.T) {
			s := golden.Samples[name]
			r := stage(t, name)
			res, body := s.ask(t, r)
			if res.StatusCode != s.Status || res.Header.Get("Content-Type") != s.ContentType {
				t.Errorf("%d %s, want %d %s", res.StatusCode, res.Header.Get("Content-Type"), s.Status, s.ContentType)
			}
			var want, got any
			if err := json.Unmarshal(s.Body, &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(body, &got); err != nil {
				got = string(body)
			}
			if text, is := want.(string); is && text != got {
				t.Errorf("got %v, want %v", got, want)
			}
			alike(t, name, want, got)
		})
	}
}

// An element of a list has the same shape as the object read alone.
func TestAListHoldsTheRecordedShape(t *testing.T) {
	var golden struct{ Samples map[string]sample }
	load(t, "testdata/maas-golden-3.4.10.json", &golden)
	for list, of := range map[string]string{"machines/": "machine_deployed", "machines/?op=power_parameters": "power_parameters"} {
		t.Run(list, func(t *testing.T) {
			var want, got any
			if err := json.Unmarshal(golden.Samples[of].Body, &want); err != nil {
				t.Fatal(err)
			}
			if read(t, stage(t, of), list, &got); strings.HasSuffix(list, "power_parameters") {
				alike(t, list, map[string]any{recordedID: want}, got)
			} else {
				alike(t, list, []any{want}, got)
			}
		})
	}
}

// Every version lists an uploaded image without its prefix custom/. From 3.5 on the list names the
// upload's base image.
func TestAnUploadIsListedWithoutItsPrefix(t *testing.T) {
	for version, base := range map[string]any{"3.4": nil, "3.5": "ubuntu/jammy", "3.6": "ubuntu/jammy", "3.7.3": "ubuntu/jammy"} {
		r := &maassim.Region{Version: version, OAuthNow: wallClock, Images: []maassim.Image{{Name: "custom/golden", Base: "ubuntu/jammy"}, {Name: "ubuntu/jammy"}}}
		var resources []map[string]any
		read(t, r, "boot-resources/", &resources)
		if last := resources[len(resources)-1]; last["name"] != "golden" || last["type"] != "Uploaded" || last["base_image"] != base {
			t.Errorf("%s lists %v, want golden made of %v", version, last, base)
		}
		var onRack struct{ Images []struct{ Name string } }
		read(t, r, "rackcontrollers/rack01/?op=list_boot_images", &onRack)
		if len(onRack.Images) != 2 || onRack.Images[0].Name != "golden" {
			t.Errorf("%s has %v on the rack, want golden", version, onRack)
		}
	}
}

// stage brings a region to the state of the sample.
func stage(t *testing.T, name string) *maassim.Region {
	r, clock := bench()
	r.Timing.Commission, r.Timing.Address, r.Timing.Deploy = 2*time.Minute, time.Second, time.Minute
	r.Scripts = []maassim.Script{{Name: "20-maas-01-install-lldpd", Default: true}, {Name: "20-maas-02-dhcp-unconfigured-ifaces", Default: true}}
	r.SetDHCP(false)
	post := func(op string, form url.Values) {
		t.Helper()
		if res, body := send(t, r, r.APIKey(), http.MethodPost, "machines/"+recordedID+"/?op="+op, form); res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", op, res.StatusCode, body)
		}
	}
	r.Arrange(maassim.Arranged{SystemID: recordedID, Hostname: "m2", Hardware: recordedBox(), Status: maassim.Ready, Uncommissioned: true})
	// The recorded machine's earlier commissionings and tests were aborted.
	r.SetDHCP(true)
	for _, wait := range []time.Duration{0, r.Timing.Commission / 2} {
		post("commission", nil)
		clock.pass(wait)
		post("abort", nil)
	}
	post("test", nil)
	post("abort", nil)
	if err := r.ByHand(maassim.ReadyByHand, recordedID); err != nil {
		t.Fatal(err)
	}
	deploy := url.Values{"distro_series": {"jammy"}, "enable_hw_sync": {"true"}, "user_data": {"I2Nsb3VkLWNvbmZpZwo="}}
	post("deploy", deploy)
	clock.pass(time.Second)
	switch name {
	case "machine_ready", "deploy_machine":
		if err := r.ByHand(maassim.ReadyByHand, recordedID); err != nil {
			t.Fatal(err)
		}
	case "machine_deploying_powered":
	default:
		clock.pass(time.Minute)
		if m, _ := r.Machine(recordedID); m.Status != maassim.Deployed {
			t.Fatalf("in %v", m.Status)
		}
	}
	r.SetDHCP(false)
	return r
}

func (s sample) ask(t *testing.T, r *maassim.Region) (*http.Response, []byte) {
	form := url.Values{}
	path := strings.TrimPrefix(s.Path, "/MAAS/api/2.0/")
	for _, p := range s.Params {
		form.Add(p[0], p[1])
	}
	return send(t, r, r.APIKey(), s.Method, path, form)
}

// alike compares shapes. In lists, each element of either side needs a match on the other side.
func alike(t *testing.T, at string, want, got any) {
	t.Helper()
	if diff := difference(at, want, got); diff != "" {
		t.Error(diff)
	}
}

func difference(at string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		got, is := got.(map[string]any)
		if !is {
			return fmt.Sprintf("%s: %T, want an object", at, got)
		}
		for key := range got {
			if _, known := want[key]; !known {
				return fmt.Sprintf("%s has %s", at, key)
			}
		}
		for key := range want {
			if _, has := got[key]; !has {
				return fmt.Sprintf("%s lacks %s", at, key)
			}
			if diff := difference(at+"."+key, want[key], got[key]); diff != "" {
				return diff
			}
		}
	case []any:
		got, is := got.([]any)
		if !is || (len(want) == 0) != (len(got) == 0) {
			return fmt.Sprintf("%s: %v, want a list of %d", at, got, len(want))
		}
		if diff := eachHasItsLike(at, want, got); diff != "" {
			return diff
		}
		return eachHasItsLike(at, got, want)
	default:
		if a, b := fmt.Sprintf("%T", want), fmt.Sprintf("%T", got); a != b {
			return fmt.Sprintf("%s: %s, want %s", at, b, a)
		}
		if a, b := form(want), form(got); a != b && a != "" && b != "" {
			return fmt.Sprintf("%s: %v has the form %s, want that of %v, %s", at, got, b, want, a)
		}
	}
	return ""
}

var hexadecimal = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|([0-9a-f]{2}:){5}[0-9a-f]{2}`)

// form is the form of a value: its separators, with letters and digits replaced. So the form of
// custom/golden differs from golden's, and a time with a zone from a time without. An empty string
// has the form of a value without a form.
func form(value any) string {
	text, is := value.(string)
	if !is {
		return ""
	}
	text = hexadecimal.ReplaceAllString(text, "HEX")
	out := []rune{}
	for _, r := range text {
		switch {
		case unicode.IsDigit(r):
			r = '9'
		case unicode.IsLetter(r):
			r = 'a'
		}
		if n := len(out); n == 0 || out[n-1] != r || r != 'a' && r != '9' {
			out = append(out, r)
		}
	}
	return string(out)
}

func eachHasItsLike(at string, these, those []any) string {
	for n, one := range these {
		diff := ""
		for _, other := range those {
			if diff = difference(fmt.Sprintf("%s[%d]", at, n), one, other); diff == "" {
				break
			}
		}
		if diff != "" {
			return diff
		}
	}
	return ""
}
