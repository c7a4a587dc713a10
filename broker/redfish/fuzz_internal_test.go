package redfish

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish/schemas"
)

// Whatever a BMC answers about its system, the reset goes to a path of that BMC.
func FuzzSystem(f *testing.F) {
	for _, s := range []string{
		`{"PowerState":"On","Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}}}`,
		`{"Actions":{"#ComputerSystem.Reset":{"target":"@evil.example/"}}}`,
		`{"Actions":{"#ComputerSystem.Reset":{"target":["/redfish/"]}}}`,
		`{"PowerState":7}`, `null`, `[]`, `{"Links":null,"Actions":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s schemas.ComputerSystem
		if json.Unmarshal(raw, &s) != nil {
			return
		}
		if target, err := resetTarget(&s); err == nil && !strings.HasPrefix(target, "/redfish/") {
			t.Errorf("posts to %q", target)
		}
	})
}
