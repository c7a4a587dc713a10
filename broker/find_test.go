package broker_test

import (
	"testing"

	"github.com/hostler/hostler/broker"
)

func TestAWordIsReadInEveryFormInWhichItIsStored(t *testing.T) {
	const uuid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
	for text, want := range map[string]broker.Word{
		"aa:bb:cc:00:11:22":                    {MAC: "aa:bb:cc:00:11:22"},
		"AA-BB-CC-00-11-22":                    {MAC: "aa:bb:cc:00:11:22"},
		"aabb.cc00.1122":                       {MAC: "aa:bb:cc:00:11:22"},
		"AABBCC001122":                         {MAC: "aa:bb:cc:00:11:22"},
		"0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0": {UUID: uuid},
		"gpu-" + uuid:                          {UUID: uuid},
		"0f1e2d3c4b5a69788796a5b4c3d2e1f0":     {UUID: uuid},
		" 10.0.0.7 ":                           {IP: "10.0.0.7"},
		"[2001:DB8::1]":                        {IP: "2001:db8::1"},
		"GPU-07.":                              {Hostname: "gpu-07"},
		"dc1/gpu-07":                           {Hostname: "gpu-07", Site: "dc1"},
		"0A:FF:10":                             {Serial: "0aff10"},
		"7C3K2X3!":                             {},
	} {
		got := broker.ParseWord(text)
		if want.MAC != got.MAC || want.UUID != got.UUID || want.IP != got.IP || want.Site != got.Site ||
			want.Hostname != "" && want.Hostname != got.Hostname || want.Serial != "" && want.Serial != got.Serial {
			t.Errorf("%q is read as %+v, want %+v", text, got, want)
		}
	}
}
