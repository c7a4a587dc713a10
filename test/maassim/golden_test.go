package maassim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/maassim"
)

// sample is one whole answer of the recorded region.
type sample struct {
	Method      string          `json:"method"`
	Path        string          `json:"path"`
	Params      [][2]string     `json:"params"`
	Status      int             `json:"status"`
	ContentType string          `json:"content_type"`
	Body        json.RawMessage `json:"body"`
}

// Every recorded body has its like in the simulator: the same keys, and of each the
// same JSON type, null included, all the way down.
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

// stage brings the region to where the sample was taken.
func stage(t *testing.T, name string) *maassim.Region {
	r, clock := bench()
	r.Timing.Commission, r.Timing.Address, r.Timing.Deploy = 2*time.Minute, time.Second, time.Minute
	r.SetDHCP(false)
	post := func(op string, form url.Values) {
		t.Helper()
		if res, body := send(t, r, r.APIKey(), http.MethodPost, "machines/"+recordedID+"/?op="+op, form); res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", op, res.StatusCode, body)
		}
	}
	r.Arrange(maassim.Arranged{SystemID: recordedID, Hostname: "m2", Hardware: recordedBox(), Status: maassim.Ready, Uncommissioned: true})
	// That machine was commissioned and tested before, each time in vain.
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

// alike compares shapes. In lists each of one side needs its like on the other.
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
	}
	return ""
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
