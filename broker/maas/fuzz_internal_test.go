package maas

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzMachine reads arbitrary descriptions of a machine.
func FuzzMachine(f *testing.F) {
	golden, err := os.ReadFile("../../test/maassim/testdata/maas-golden-3.4.10.json")
	if err == nil {
		f.Add(golden)
	}
	for _, seed := range []string{
		`{"system_id":"abc123","status":6,"ip_addresses":["10.0.0.9","fe80::1%eth0",null],"last_sync":"2026-11-21T09:46:59.119"}`,
		`{"system_id":"abc123","boot_interface":{"vlan":{"primary_rack":null},"links":[{"subnet":{"cidr":"10.0.0.0/99"}}]},"interface_set":[{"links":null}]}`,
		`{"system_id":"../../x"}`, `{"system_id":"abc123","last_sync":{},"sync_interval":-1}`, `null`, `[]`, `"x"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, ok := machineOf(raw)
		if !ok {
			return
		}
		if checkID("read", m.SystemID) != nil {
			t.Errorf("%q became part of a path", m.SystemID)
		}
		for _, a := range Unicast(m.IPAddresses) {
			if !a.IsGlobalUnicast() || a.Zone() != "" {
				t.Errorf("%v would be dialled", a)
			}
		}
		if m.BootInterface != nil {
			if a := nearest(m.IPAddresses, subnetsOf(m)); a != (netip.Addr{}) && !a.IsGlobalUnicast() {
				t.Errorf("%v would be told to a machine", a)
			}
		}
		if l := m.LastSync; !l.IsZero() && l.Location().String() != "UTC" {
			t.Errorf("%v", l)
		}
	})
}

// FuzzJudge makes an error from any answer: the error's text is short, plain, and without the key.
func FuzzJudge(f *testing.F) {
	for _, seed := range []struct {
		status      int
		contentType string
		body        string
	}{
		{http.StatusBadRequest, "application/json", `{"__all__":["no"],"x":[1,{"y":null}]}`},
		{http.StatusServiceUnavailable, "text/plain", "the key is " + fuzzSecret},
		{http.StatusConflict, "text/plain; charset=utf-8", "Invalid transition: Ready -> \x1b]0;x\x07."},
		{http.StatusNotFound, "text/html", "<html>" + fuzzSecret + "</html>"},
		{http.StatusForbidden, "", "\xff\xfe"},
		{302, "", ""},
		{0, "", ""},
		{200, "text/html", ""},
	} {
		f.Add(seed.status, seed.contentType, []byte(seed.body))
	}
	key, err := ParseKey("abcdefghijklmnopqr:ABCDEFGHIJKLMNOPQR:" + fuzzSecret)
	if err != nil {
		f.Fatal(err)
	}
	region, err := Open(Options{BaseURL: "http://maas.invalid:5240/MAAS", Key: key})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		b := &bound{region: region, ctx: context.Background(), last: answer{method: http.MethodPost, changes: true, sent: true, status: status, contentType: contentType, body: body}}
		err := b.judge("deploy", nil)
		e := (*Error)(nil)
		if err == nil {
			if status/100 != 2 {
				t.Errorf("%d is no error", status)
			}
			return
		}
		if !errors.As(err, &e) || e.Class == "" {
			t.Fatalf("%T %v", err, err)
		}
		text := err.Error()
		if len(e.Detail) > 4*maxDetail || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || strings.Contains(text, fuzzSecret) {
			t.Errorf("%q", text)
		}
	})
}

const fuzzSecret = "0123456789abcdefghijklmnopqrstuv"
