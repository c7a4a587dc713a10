package redact

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestWhatLooksLikeASecretIsTakenOut(t *testing.T) {
	r := New(nil, nil)
	for line, secret := range map[string]string{
		"cannot use token hsn_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789_-abcde here":               "hsn_Ab",
		"token=hso_0123456789 is void":                                                        "hso_",
		"-----BEGIN PRIVATE KEY-----\nMC4CAQAw\nBQYDK2Vw\n-----END PRIVATE KEY-----":          "MC4C",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nand it was cut off":            "b3Blb",
		"identity AGE-SECRET-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L":                          "QQPZ",
		"root:$6$saltsalt$abcdefghijklmnopqrstuv.:20000":                                      "saltsalt",
		"user:$y$j9T$abcdefgh$ijklmnop":                                                       "j9T",
		"Authorization: OAuth oauth_token=\"abc\", oauth_signature=\"%26def\"":                "%26def",
		"sent Bearer abcdefghijkl to it":                                                      "abcdefghijkl",
		"pulled https://pull:geheim1@registry.local/agent":                                    "geheim1",
		"pulled https://geheimnis@registry.local/agent":                                       "geheimnis",
		"MAAS key 9wAyRGWDvTbLEQyvFc:2vD6CyNLMAPYh4dZBF:kyRdXbZEEdEfEPnbhgqkvLPRfNFMxPmB end": "kyRdX",
		"password: hunter2":                         "hunter2",
		`{"token_secret":"a b\"c"}`:                 `b\"c`,
		`{\"password\": \"with blank\"}`:            "with blank",
		"ipmi_password='with a blank' ok":           "with a",
		"run with --password hunter2 --now":         "hunter2",
		"the consumer_key => abc":                   "abc",
		"AKIAIOSFODNN7EXAMPLE is used":              "AKIAIO",
		"jwt eyJhbGciOiJI.eyJzdWIi.sig":             "eyJzdW",
		"a bare q83vEjRWeJCrze8SNFZ4kKvN value":     "q83vE",
		"padded c29tZSByYW5kb20gdGV4dCBoZXJlMQ== x": "c29tZ",
	} {
		got, n := r.Text(line)
		if strings.Contains(got, secret) || n == 0 || !strings.Contains(got, mark) {
			t.Errorf("%q became %q (%d)", line, got, n)
		}
	}
}

func TestWhatIsNoSecretStays(t *testing.T) {
	r := New(nil, nil)
	for _, line := range []string{
		"", "accepted the task t-01j8x2k3m4n5p6q7r8s9t0u1v2w3 of n-aaaaaaaaaaaaaaaa",
		"sha256:" + strings.Repeat("0a", 32),
		"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
		"GPU-5e8f1c3a-1234-5678-9abc-def012345678 is not_clean",
		"/usr/lib/hostler-agent/versions/1.2.3/hostler-agent",
		"amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=123, emitted seq=125",
		"cannot enroll node n-12: token expired (issue a new one)",
		"https://broker.example:7441/internal/v1/nodes", "--key-file", "S6ABNE0T100001",
	} {
		if got, n := r.Text(line); got != line || n != 0 {
			t.Errorf("%q became %q (%d)", line, got, n)
		}
	}
}

func TestWhatIsKnownIsTakenOutWhereverItIs(t *testing.T) {
	r := New([]string{"abc", "sesame-open", "sesame-open-wide"}, map[string]string{"alice": "[user 20001]", "al": "[user 20002]"})
	for line, want := range map[string]string{
		"abc stays: it is too short":             "abc stays: it is too short",
		"xsesame-open-widex and sesame-open":     "x[redacted]x and [redacted]",
		"password=sesame-open":                   "password=[redacted]",
		"alice,al alice alice's /home/alice/al":  "[user 20001],[user 20002] [user 20001] [user 20001]'s /home/[user 20001]/[user 20002]",
		"malice, alice-2 and alice_x are others": "malice, alice-2 and alice_x are others",
	} {
		if got, _ := r.Text(line); got != want {
			t.Errorf("%q became %q, want %q", line, got, want)
		}
	}
}

func TestADocumentStaysOneWithoutItsSecrets(t *testing.T) {
	r := New([]string{"sesame-open"}, map[string]string{"alice": "[user 1]"})
	var v, want any
	if err := json.Unmarshal([]byte(`{"version":"1.2","password":"x","list":["sesame-open",3,true,null],"of":{"alice":"home of alice","token_count":7,"token":""}}`), &v); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"version":"1.2","password":"[redacted]","list":["[redacted]",3,true,null],"of":{"[user 1]":"home of [user 1]","token_count":7,"token":""}}`), &want); err != nil {
		t.Fatal(err)
	}
	got, n := r.Value(v)
	if !reflect.DeepEqual(got, want) || n != 4 {
		t.Errorf("%v (%d)", got, n)
	}
}

func FuzzText(f *testing.F) {
	f.Add("password=", "x")
	f.Add("-----BEGIN PRIVATE KEY-----", "\xff")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "this-one-is-known"
		r := New([]string{secret}, map[string]string{"alice": "[user 1]"})
		if got, n := r.Text(before + secret + after); strings.Contains(got, secret) || n == 0 {
			t.Errorf("%q (%d)", got, n)
		}
	})
}
