package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

func TestGPUHealthSaysWhichValueSaidSo(t *testing.T) {
	sick := taskcatalog.HealthReason{Verdict: taskcatalog.HealthFailed, Field: "remap_failed", Value: "1", Message: "rows\x1b[2J could not be replaced"}
	unknown := taskcatalog.HealthReason{Verdict: taskcatalog.HealthUnknown, Field: "look", Value: "library_missing", Message: "no library"}
	for name, c := range map[string]struct {
		report taskcatalog.HealthReport
		code   taskcatalog.Code
		says   string
	}{
		"healthy": {taskcatalog.HealthReport{Verdict: taskcatalog.HealthHealthy, GPUs: []taskcatalog.GPUHealthOf{
			{Vendor: "nvidia", UUID: "GPU-1", PCIAddress: "0000:01:00.0", Verdict: taskcatalog.HealthHealthy},
		}}, "", "0000:01:00.0 GPU-1 healthy"},
		"failed": {taskcatalog.HealthReport{Verdict: taskcatalog.HealthFailed, GPUs: []taskcatalog.GPUHealthOf{
			{Vendor: "nvidia", UUID: "GPU-1", PCIAddress: "0000:01:00.0", Verdict: taskcatalog.HealthFailed, Reasons: []taskcatalog.HealthReason{sick}},
		}}, codeGPUNotHealthy, "0000:01:00.0 GPU-1 failed remap_failed 1 rows"},
		"unknown": {
			taskcatalog.HealthReport{Verdict: taskcatalog.HealthUnknown, Reasons: []taskcatalog.HealthReason{unknown}},
			codeGPUHealthUnknown, "all - unknown look library_missing no library",
		},
		"a verdict to come": {taskcatalog.HealthReport{Verdict: "splendid"}, codeGPUNotHealthy, ""},
	} {
		cmd := newGPUHealth(func(context.Context, string) (taskcatalog.HealthReport, error) { return c.report, nil })
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(nil)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		if taskcatalog.CodeOf(err, "") != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if said := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(said, c.says) || strings.ContainsRune(said, 0x1b) {
			t.Errorf("%s: %q", name, said)
		}
	}
}
