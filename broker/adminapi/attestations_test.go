package adminapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestAPersonsWordIsKeptAsOneAndRefusedWhereItIsNoGood(t *testing.T) {
	b := servertest.Start(t)
	b.OnRecord(t, "dc1")
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1", Site: "dc1"})
	machine := servertest.H100s(2)
	b.EnrollMachine(t, boot.Token, "h1", "", machine).Settle(t)
	machine.GPUs = machine.GPUs[1:] // the first GPU is gone
	again := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes/h1/token", api.TokenRequest{Reason: "it answered no more"})
	b.EnrollMachine(t, again.Token, "h1", "", machine)
	const gone, there = "GPU-00000000", "GPU-00000001"
	ask := func(token string, p api.AttestationPut) servertest.Answer {
		return b.Ask(t, token, http.MethodPost, "/nodes/h1/attestations", p)
	}
	for name, row := range map[string]struct {
		p    api.AttestationPut
		code string
	}{
		"a part that is there":         {api.AttestationPut{Device: there, Method: "destroyed", Witness: "Bo"}, "device_present"},
		"a part of another machine":    {api.AttestationPut{Device: "WD-99", Method: "destroyed", Witness: "Bo"}, "device_unknown"},
		"a method of a machine":        {api.AttestationPut{Device: gone, Method: "overwrite", Witness: "Bo"}, "invalid_request"},
		"nobody saw it":                {api.AttestationPut{Device: gone, Method: "destroyed", Witness: "  "}, "witness_invalid"},
		"a witness of control chars":   {api.AttestationPut{Device: gone, Method: "destroyed", Witness: "Bo\x1b[2J"}, "witness_invalid"},
		"a witness on two lines":       {api.AttestationPut{Device: gone, Method: "destroyed", Witness: "Bo\nclean"}, "witness_invalid"},
		"a witness that turns around":  {api.AttestationPut{Device: gone, Method: "destroyed", Witness: "Bo\u202e"}, "witness_invalid"},
		"a witness without end":        {api.AttestationPut{Device: gone, Method: "destroyed", Witness: strings.Repeat("B", 300)}, "witness_invalid"},
		"one's own witness":            {api.AttestationPut{Device: gone, Method: "destroyed", Witness: "Admin"}, "witness_invalid"},
		"a part by a name of its kind": {api.AttestationPut{Device: "gpu GPU-00000000", Method: "removed", Witness: "Bo"}, "device_unknown"},
	} {
		if a := ask(b.Token, row.p); a.Code() != row.code {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, row.code)
		}
	}
	word := api.AttestationPut{Device: gone, Method: "destroyed", Witness: "Bo Lind", Reason: "shredded"}
	viewer := servertest.Must[api.TokenCreated](t, b, http.MethodPost, "/tokens", api.TokenCreate{Name: "vera", Role: "viewer"})
	if a := ask(viewer.Secret, word); a.Code() != "role_insufficient" {
		t.Errorf("a viewer: %d %s", a.Status, a.Body)
	}
	kept := servertest.Must[api.Attestation](t, b, http.MethodPost, "/nodes/h1/attestations", word)
	if a := ask(b.Token, word); a.Code() != "device_attested" {
		t.Errorf("the same again: %d %s", a.Status, a.Body)
	}
	same := servertest.Must[api.Attestation](t, b, http.MethodGet, "/attestations/"+kept.AttestationID, nil)
	trust, err := certificate.ReadTrust(b.Ask(t, b.Token, http.MethodGet, "/trust", nil).Body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := certificate.Verify([]byte(same.File), trust, b.Now())
	if err != nil || r.Attestation == nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if a := r.Attestation; a.StatementOf != "person" || a.Witness != "Bo Lind" || a.By != "admin" || a.Device.UUID != gone || a.Device.Serial == "" || a.Node.ID != boot.Node.ID || r.Digest != kept.Digest {
		t.Errorf("%+v", a)
	}
	if h := show(t, b, "h1").Handout; !h.MayBeHandedOut {
		t.Errorf("the part is still missing: %+v", h)
	}
	elsewhere := servertest.Must[api.TokenCreated](t, b, http.MethodPost, "/tokens", api.TokenCreate{Name: "eve", Role: "operator", Sites: []string{"dc2"}})
	if a := b.Ask(t, elsewhere.Secret, http.MethodGet, "/attestations/"+kept.AttestationID, nil); a.Code() != "certificate_not_found" {
		t.Errorf("another site's: %d %s", a.Status, a.Body)
	}
}
