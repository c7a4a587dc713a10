package maas

import (
	"context"
	"testing"
	"time"

	"github.com/canonical/gomaasclient/client"

	"github.com/hostler/hostler/test/maassim"
)

// An error's class tells the truth about whether the change was made, whatever fault the call met;
// and no call is made twice.
func TestWhatAnErrorSaysOfAChangeIsTrue(t *testing.T) {
	unknown := 0
	for _, kind := range maassim.Faults {
		region := &maassim.Region{Seed: 1, Now: time.Now}
		key, err := ParseKey(region.APIKey())
		if err != nil {
			t.Fatal(err)
		}
		r := opened(t, Options{BaseURL: maassim.URL, Key: key, Transport: region.RoundTripper()})
		region.Inject(maassim.Fault{Kind: kind, Op: "set_config", Times: -1, After: time.Millisecond})
		_, err = call(t.Context(), r, "set", changes, func(c *client.Client) (struct{}, error) {
			return struct{}{}, c.MAASServer.Post("hardware_sync_interval", "45m")
		})
		region.Relent()
		if n := region.Count("set_config"); n > 1 {
			t.Errorf("%s: the call was made %d times", kind, n)
		}
		if ClassOf(err) == Unauthorized {
			continue // the key is gone: nobody may look
		}
		changed := setting(t, r, "hardware_sync_interval") == `"45m"`
		switch class := ClassOf(err); {
		case err == nil && !changed:
			t.Errorf("%s: it went well, and changed nothing", kind)
		case err != nil && changed && class != UnknownOutcome:
			t.Errorf("%s: %v, and it was changed all the same", kind, err)
		case err != nil && changed:
			unknown++
		}
	}
	if unknown < 4 {
		t.Errorf("only %d answers were lost after a change", unknown)
	}
}

func setting(t *testing.T, r *Region, name string) string {
	t.Helper()
	raw, err := call(context.WithoutCancel(t.Context()), r, "get", looks, func(c *client.Client) ([]byte, error) { return c.MAASServer.Get(name) })
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
