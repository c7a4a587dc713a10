package broker_test

import (
	"testing"

	"github.com/hostler/hostler/broker"
)

func TestAnImageHasOneName(t *testing.T) {
	for series, want := range map[string]string{
		"": "", "noble": "ubuntu/noble", "ubuntu/noble": "ubuntu/noble", "custom/golden": "custom/golden", "gpuaas-v2": "custom/gpuaas-v2",
	} {
		if got := broker.ImageName(series); got != want {
			t.Errorf("%q: %q, want %q", series, got, want)
		}
	}
}
