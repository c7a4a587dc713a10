package turnover

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/hostler/hostler/broker"
)

// A certificate's policy has no knob of its own: each member but the version is a member of the
// turnover's policy, under the same name and with the same value.
func TestACertificatesPolicyComesFromTheTurnovers(t *testing.T) {
	p := broker.DefaultPolicy()
	p.TurnoverEnvironment, p.RootRequiresReimage, p.DiskGrade = "fresh_os", true, "purge"
	p.GPUAllowUnverified, p.GPURequireReset, p.ReportOnly = true, true, []string{"efi"}
	members := func(v any) (out map[string]any) {
		raw, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(raw, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	asked, stated := members(p.Turnover()), members(policyOf(p.Turnover()))
	delete(stated, "version")
	if len(stated) != 6 {
		t.Errorf("the certificate states %d knobs; set the new one above to another value than zero", len(stated))
	}
	for name, value := range stated {
		if !reflect.DeepEqual(asked[name], value) {
			t.Errorf("the certificate states %s as %v, and the turnover has %v", name, value, asked[name])
		}
	}
}
