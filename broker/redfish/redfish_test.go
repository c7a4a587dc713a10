package redfish_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/machines"
	"github.com/hostler/hostler/broker/machines/machinestest"
	"github.com/hostler/hostler/broker/redfish"
	"github.com/hostler/hostler/test/redfishsim"
)

// world is a BMC behind HTTPS.
type world struct {
	*redfishsim.BMC
	at *httptest.Server
}

func newWorld(t *testing.T, maker redfishsim.Make) *world {
	t.Helper()
	b := redfishsim.New(maker, time.Now)
	w := &world{b, httptest.NewTLSServer(b)}
	t.Cleanup(w.at.Close)
	return w
}

func (w *world) config(password string) redfish.Config {
	sum := sha256.Sum256(w.at.Certificate().Raw)
	return redfish.Config{
		Address: strings.TrimPrefix(w.at.URL, "https://"), Login: machines.NewLogin(w.User, password), Now: time.Now,
		Trust: redfish.Trust{Pinned: hex.EncodeToString(sum[:])},
	}
}

func open(t *testing.T, c redfish.Config) machines.Power {
	t.Helper()
	p, err := redfish.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (w *world) Open(t *testing.T, password string) machines.Power {
	return open(t, w.config(password))
}
func (w *world) Password() string { return w.BMC.Password }
func (w *world) Serial() string   { return w.BMC.Serial }
func (w *world) Ignore()          { w.Set(redfishsim.Faults{Ignore: true}) }
func (w *world) Unplug()          { w.at.Close() }

func TestEachMakersBMCIsAPowerSwitch(t *testing.T) {
	for _, maker := range []redfishsim.Make{redfishsim.DMTF, redfishsim.Dell, redfishsim.HPE, redfishsim.Supermicro} {
		t.Run(string(maker), func(t *testing.T) {
			machinestest.Power(t, func(t *testing.T) machinestest.World { return newWorld(t, maker) })
		})
	}
}

func code(err error) string {
	if err == nil {
		return ""
	}
	return broker.AsError(err).Code
}

func TestATroubledBMC(t *testing.T) {
	elsewhere := newWorld(t, redfishsim.DMTF)
	for _, c := range []struct {
		name   string
		faults redfishsim.Faults
		want   machines.State
		code   string
	}{
		{"answers 503", redfishsim.Faults{Busy: 100}, machines.Unknown, machines.CodeUnreachable},
		{"redirects to another host", redfishsim.Faults{Redirect: elsewhere.at.URL + "/redfish/v1/Systems"}, machines.Unknown, machines.CodeRefused},
		{"redirects to its own host", redfishsim.Faults{Redirect: "/redfish/v1/Systems?x"}, machines.Unknown, machines.CodeRefused},
		{"links to another host", redfishsim.Faults{Link: elsewhere.at.URL + "/redfish/v1/Systems/1"}, machines.Unknown, machines.CodeAnswerInvalid},
		{"links to a user of another host", redfishsim.Faults{Link: "@evil.example/redfish/v1/Systems/1"}, machines.Unknown, machines.CodeAnswerInvalid},
		{"links to a longer host", redfishsim.Faults{Link: ".evil.example/redfish/v1/Systems/1"}, machines.Unknown, machines.CodeAnswerInvalid},
		{"answers without an end", redfishsim.Faults{Long: true}, machines.Unknown, machines.CodeAnswerInvalid},
		{"answers no JSON", redfishsim.Faults{Body: "<html>"}, machines.Unknown, machines.CodeAnswerInvalid},
		{"answers half of it", redfishsim.Faults{Body: `{"PowerState": "On`}, machines.Unknown, machines.CodeAnswerInvalid},
		{"says another word", redfishsim.Faults{PowerState: "Standby"}, machines.Unknown, ""},
		{"says nothing of its power", redfishsim.Faults{PowerState: "null"}, machines.Unknown, ""},
		{"is about to go on", redfishsim.Faults{PowerState: "PoweringOn"}, machines.Unknown, ""},
		{"loses its session", redfishsim.Faults{Expires: true}, machines.Off, ""},
		{"has no sessions", redfishsim.Faults{NoSessions: true}, machines.Off, ""},
	} {
		w := newWorld(t, redfishsim.DMTF)
		w.Set(c.faults)
		got, err := w.Open(t, w.Password()).State(t.Context())
		if got != c.want || code(err) != c.code {
			t.Errorf("a BMC that %s: %s, %v", c.name, got, err)
		}
	}
	if n := len(elsewhere.Requests()); n != 0 {
		t.Errorf("another host got %d requests", n)
	}
}

func TestABMCThatHangsIsGivenUp(t *testing.T) {
	w := newWorld(t, redfishsim.DMTF)
	w.Set(redfishsim.Faults{Hangs: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.Open(t, w.Password()).TurnOn(ctx); code(err) != machines.CodeUnreachable {
		t.Error(err)
	}
}

// A BMC locks an account after a few refused logins.
func TestAWrongPasswordIsOneRefusedLogin(t *testing.T) {
	w := newWorld(t, redfishsim.DMTF)
	if _, err := w.Open(t, "n0t-the-one").State(t.Context()); code(err) != machines.CodeLoginRefused {
		t.Error(err)
	}
	logins := 0
	for _, r := range w.Requests() {
		if r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/Sessions") {
			logins++
		}
	}
	if logins != 1 {
		t.Errorf("%d logins", logins)
	}
}

func TestSessionsAreEnded(t *testing.T) {
	w := newWorld(t, redfishsim.Dell)
	p := w.Open(t, w.Password())
	if err := p.TurnOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.TurnOn(t.Context()); code(err) != machines.CodeRefused || !strings.Contains(err.Error(), "IDRAC.2.4.PSU501") {
		t.Error(err)
	}
	if n := w.Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// A reset is posted once: a late repeat could undo what somebody else did since.
func TestAResetIsSentOnce(t *testing.T) {
	w := newWorld(t, redfishsim.DMTF)
	if err := w.Open(t, w.Password()).TurnOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	resets := 0
	for _, r := range w.Requests() {
		if strings.HasSuffix(r.Path, "/Actions/ComputerSystem.Reset") {
			resets++
			if r.Body != `{"ResetType":"On"}` {
				t.Errorf("posted %s", r.Body)
			}
		}
	}
	if resets != 1 {
		t.Errorf("%d resets", resets)
	}
}

func TestARefusalRepeatsNothingOfTheBMC(t *testing.T) {
	for _, maker := range []redfishsim.Make{redfishsim.Dell, redfishsim.HPE} {
		w := newWorld(t, maker)
		w.Set(redfishsim.Faults{Echo: true})
		for _, password := range []string{w.Password(), "n0t-the-one"} {
			err := w.Open(t, password).TurnOff(t.Context(), false) // the machine is off already
			if err == nil || strings.Contains(err.Error(), password) || strings.Contains(err.Error(), w.Password()) {
				t.Errorf("%s: %v", maker, err)
			}
		}
	}
}

func TestABMCProvesItself(t *testing.T) {
	w := newWorld(t, redfishsim.DMTF)
	other := newWorld(t, redfishsim.DMTF)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.at.Certificate().Raw})
	for _, c := range []struct {
		name  string
		trust redfish.Trust
		new   string // code of New
		state string // code of a look
	}{
		{"by its pin", w.config("").Trust, "", ""},
		{"by another pin", redfish.Trust{Pinned: strings.Repeat("ab", 32)}, "", machines.CodeUntrusted},
		{"by a CA", redfish.Trust{CA: string(ca)}, "", ""},
		{"by no proof", redfish.Trust{Insecure: true}, "", ""},
		{"by nothing", redfish.Trust{}, "bmc_trust_invalid", ""},
		{"by two", redfish.Trust{CA: string(ca), Insecure: true}, "bmc_trust_invalid", ""},
		{"by half a pin", redfish.Trust{Pinned: "abcd"}, "bmc_trust_invalid", ""},
		{"by a CA that is none", redfish.Trust{CA: "-----BEGIN"}, "bmc_trust_invalid", ""},
	} {
		config := w.config(w.Password())
		config.Trust = c.trust
		p, err := redfish.New(config)
		if code(err) != c.new {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil {
			continue
		}
		if _, err := p.State(t.Context()); code(err) != c.state {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if before := len(other.Requests()); before != 0 {
		t.Error("another BMC was asked")
	}
	// The machine's own certificate is signed by nobody that the system knows.
	config := w.config(w.Password())
	config.Trust = redfish.Trust{CA: otherCA}
	n := len(w.Requests())
	if _, err := open(t, config).State(t.Context()); code(err) != machines.CodeUntrusted {
		t.Error(err)
	}
	if got := len(w.Requests()); got != n {
		t.Error("the login went to a BMC that had not proved itself")
	}
}

func TestAnAddressIsAHost(t *testing.T) {
	for address, good := range map[string]bool{
		"10.0.0.1": true, "10.0.0.1:8443": true, "bmc-7.rack.example": true, "fd00::7": true, "[fd00::7]:443": true, "[fd00::7]": true,
		"": false, "10.0.0.1/x": false, "root@10.0.0.1": false, "10.0.0.1:0": false, "10.0.0.1:70000": false, "fe80::1%eth0": false,
		"a b": false, "-x": false, "10.0.0.1:443?": false, "https://10.0.0.1": false,
	} {
		_, err := redfish.New(redfish.Config{Address: address, Trust: redfish.Trust{Insecure: true}, Now: time.Now})
		if (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// otherCA signed nothing here.
const otherCA = `-----BEGIN CERTIFICATE-----
MIIBdzCCAR2gAwIBAgIUXcsgW6K4trknVSpmNlU2QY9nOvIwCgYIKoZIzj0EAwIw
EDEOMAwGA1UEAwwFb3RoZXIwIBcNMjYxMTI5MDE1NTM4WhgPMjEyNjExMDUwMTU1
MzhaMBAxDjAMBgNVBAMMBW90aGVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
w3CIpiBrK+d0ynf+gJWr4moSg90N6OAILNhBHea4uoH5ywfXur5HspZ2j4n22dZd
osL9XlHtpisPuwGqK9mI3qNTMFEwHQYDVR0OBBYEFKuBx383YeK3a3ZOueyVjs1g
DU/KMB8GA1UdIwQYMBaAFKuBx383YeK3a3ZOueyVjs1gDU/KMA8GA1UdEwEB/wQF
MAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhALpJGaOgmbcUqDzlzAYV9AZPHmVM6GUK
u6gdcEoZBJsvAiAZlD4+1RfWdnClKPeQXxQkCUSWCAMEOJhFCinKCTa3zA==
-----END CERTIFICATE-----
`
