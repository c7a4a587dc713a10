package gpu_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/test/fakegpu"
)

// BenchmarkScrubEightGPUs scrubs eight fake GPUs of 1 GiB side by side: the cost of the engine, the
// pipes and eight processes, with a CPU in place of GPUs.
func BenchmarkScrubEightGPUs(b *testing.B) {
	m, err := fakegpu.New(b.TempDir(), "devices 8", "memory 1G", "reserved 16M", "scrub_on_free off")
	if err != nil {
		b.Fatal(err)
	}
	h := gpu.NewHelper("hostler-agent", childWord)
	h.Env = m.Env()
	var all []gpu.Device
	for _, g := range h.Survey(b.Context(), "nvidia").GPUs {
		all = append(all, gpu.Device{Vendor: g.Vendor, UUID: g.UUID})
	}
	var covered uint64
	start := time.Now()
	for b.Loop() {
		for _, bytes := range gpu.InParallel(all, func(d gpu.Device) uint64 {
			r, err := h.Scrub(b.Context(), d, gpu.ScrubOptions{Nonce: nonce}, nil)
			if err != nil || r.MismatchedWords > 0 {
				b.Errorf("%+v, %v", r, err)
			}
			return r.CoveredBytes
		}) {
			covered += bytes
		}
	}
	b.ReportMetric(float64(covered)/1e9/time.Since(start).Seconds(), "GB/s-scrubbed")
}

// BenchmarkSurveyOfEightGPUs is the GPU part of gathering facts: a child loads the libraries and
// queries each of eight GPUs.
func BenchmarkSurveyOfEightGPUs(b *testing.B) {
	m, err := fakegpu.New(b.TempDir(), "devices 8", "memory 16M")
	if err != nil {
		b.Fatal(err)
	}
	h := gpu.NewHelper("hostler-agent", childWord)
	h.Env = m.Env()
	for b.Loop() {
		if s := h.Survey(b.Context(), "nvidia"); len(s.GPUs) != 8 {
			b.Fatalf("%+v", s)
		}
	}
}
