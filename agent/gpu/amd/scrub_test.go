package amd_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/gpu/amd"
	"github.com/hostler/hostler/taskcatalog"
)

// scrub is the findings of a pass over all memory.
type scrub struct {
	Bytes, Total  uint64
	Residue       uint64 // words not zero before
	Mismatches    uint64
	HostDiffers   uint64 // wrong words among those read by the host
	After         uint64 // words not zero afterwards
	ComparedOnGPU bool
}

// takeAll allocates 1 MiB at a time until there is no more.
func takeAll(m gpu.Memory) ([]gpu.Chunk, error) {
	var all []gpu.Chunk
	for {
		c, err := m.Alloc(1 << 20)
		if taskcatalog.CodeOf(err, "") == gpu.CodeOutOfMemory {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
}

func scrubAll(v *amd.Vendor, uuid string) (scrub, error) {
	var s scrub
	m, err := v.OpenMemory(uuid)
	if err != nil {
		return s, err
	}
	info, err := m.Info()
	if err != nil {
		return s, err
	}
	s.Total, s.ComparedOnGPU = info.Total, m.ComparedOnGPU()
	p := gpu.NewPattern([]byte("nonce"), uuid)
	chunks, err := takeAll(m)
	if err != nil {
		return s, err
	}
	each := func(do func(c gpu.Chunk, offset uint64) error) {
		for i, c := range chunks {
			if err == nil {
				err = do(c, uint64(i)<<20)
			}
		}
	}
	add := func(to *uint64, n uint64, err error) error { *to += n; return err }
	each(func(c gpu.Chunk, _ uint64) error {
		s.Bytes += c.Bytes
		n, err := m.NonZero(c)
		return add(&s.Residue, n, err)
	})
	each(func(c gpu.Chunk, offset uint64) error { return m.Fill(c, p, offset) })
	each(func(c gpu.Chunk, offset uint64) error {
		n, err := m.Mismatches(c, p, offset)
		return add(&s.Mismatches, n, err)
	})
	each(func(c gpu.Chunk, offset uint64) error {
		buf := make([]byte, c.Bytes)
		err := m.Read(c, 0, buf)
		for i := range c.Bytes / 8 {
			if binary.LittleEndian.Uint64(buf[8*i:]) != p.Word(offset/8+i) {
				s.HostDiffers++
			}
		}
		return err
	})
	each(func(c gpu.Chunk, _ uint64) error { return m.Zero(c) })
	each(func(c gpu.Chunk, _ uint64) error { n, err := m.NonZero(c); return add(&s.After, n, err) })
	each(func(c gpu.Chunk, _ uint64) error { return m.Free(c) })
	if err != nil {
		return s, err
	}
	return s, m.Close()
}

// plant leaves a tenant's data in all memory and frees nothing.
func plant(v *amd.Vendor, uuid string) error {
	m, err := v.OpenMemory(uuid)
	if err != nil {
		return err
	}
	chunks, err := takeAll(m)
	for i, c := range chunks {
		if err == nil {
			err = m.Fill(c, gpu.NewPattern([]byte("tenant"), uuid), uint64(i)<<20)
		}
	}
	return err
}

const mib = 1 << 20

func TestAScrubGoesOverAllMemory(t *testing.T) {
	for name, libs := range map[string][]string{"with kernels": allLibraries, "through the host": allLibraries[:2]} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, libs, "scrub_on_free off")
			uuid := l.uuids()[1]
			l.must(request{Do: "plant", UUID: uuid})
			onGPU := len(libs) == 3

			s := l.must(request{Do: "scrub", UUID: uuid}).Scrub
			// The counter takes a little of the memory that the driver leaves.
			if s.Total != 16*mib || s.Bytes != 14*mib || s.ComparedOnGPU != onGPU {
				t.Errorf("went over %d of %d bytes, on the GPU: %v", s.Bytes, s.Total, s.ComparedOnGPU)
			}
			// The counter and a chunk lie in the last piece of the tenant's memory.
			if s.Residue < 13*mib/8 {
				t.Errorf("residue of %d words found, want nearly all of %d", s.Residue, 14*mib/8)
			}
			if s.Mismatches != 0 || s.HostDiffers != 0 || s.After != 0 {
				t.Errorf("memory is as written and then zero, but %+v", s)
			}
			if again := l.must(request{Do: "scrub", UUID: uuid}).Scrub; again.Residue != 0 {
				t.Errorf("a second look finds %d words", again.Residue)
			}
		})
	}
}

func TestFaultsOfMemory(t *testing.T) {
	for _, c := range []struct {
		fault string
		libs  int
		code  taskcatalog.Code
		check func(scrub) bool
	}{
		{fault: "keeps_chunk 4M", libs: 3, check: func(s scrub) bool { return s.Mismatches == 8192 && s.HostDiffers == 8192 }},
		{fault: "keeps_chunk 4M", libs: 2, check: func(s scrub) bool { return s.Mismatches == 8192 && !s.ComparedOnGPU }},
		{fault: "oom_early 4M", libs: 3, check: func(s scrub) bool { return s.Bytes == 3*mib && s.Total == 16*mib }},
		{fault: "compile_fails", libs: 3, check: func(s scrub) bool { return !s.ComparedOnGPU && s.Mismatches == 0 && s.Bytes == 14*mib }},
		{fault: "ecc_in_verify", libs: 3, code: gpu.CodeECCUncorrectable},
		{fault: "kernel_fault fill", libs: 3, code: gpu.CodeKernelFault},
		{fault: "kernel_fault verify", libs: 3, code: gpu.CodeKernelFault},
		{fault: "kernel_fault zero", libs: 3, code: gpu.CodeKernelFault},
		{fault: "lost_after 5M", libs: 3, code: gpu.CodeDeviceLost},
		{fault: "lost_after 5M", libs: 2, code: gpu.CodeDeviceLost},
	} {
		t.Run(fmt.Sprint(c.fault, c.libs), func(t *testing.T) {
			l := newLab(t, allLibraries[:c.libs])
			uuid, other := l.uuids()[0], l.uuids()[1]
			l.configure("fault.0 " + c.fault)
			a := l.ask(request{Do: "scrub", UUID: uuid})
			if a.Code != c.code || (c.code != "") != (a.Message != "") {
				t.Fatalf("ended with %q %q, want %q", a.Code, a.Message, c.code)
			}
			if c.check != nil && !c.check(a.Scrub) {
				t.Errorf("found %+v", a.Scrub)
			}
			// The other GPU is not affected.
			if s := l.must(request{Do: "scrub", UUID: other}).Scrub; s.Mismatches != 0 || s.Bytes != 14*mib {
				t.Errorf("the other GPU: %+v", s)
			}
		})
	}
}

// A GPU whose count is always zero is caught by the host's read-back.
func TestTheHostSeesWhatALyingCompareHides(t *testing.T) {
	l := newLab(t, allLibraries)
	uuid := l.uuids()[0]
	l.configure("scrub_on_free off", "fault lying_compare", "fault keeps_chunk 4M")
	if s := l.must(request{Do: "scrub", UUID: uuid}).Scrub; s.Mismatches != 0 || s.HostDiffers != 8192 {
		t.Errorf("the GPU counts %d, the host %d", s.Mismatches, s.HostDiffers)
	}
}

func TestALibraryThatCrashesEndsTheChildOnly(t *testing.T) {
	for _, place := range []string{"init", "open", "alloc", "fill", "verify", "zero", "free"} {
		l := newLab(t, allLibraries)
		uuid := l.uuids()[0]
		l.configure("fault crash " + place)
		if got := l.died(t.Context(), request{Do: "scrub", UUID: uuid}); got != syscall.SIGSEGV {
			t.Errorf("crash in %s ended the child with %v", place, got)
		}
	}
}

func TestALibraryThatHangsIsKilled(t *testing.T) {
	for _, place := range []string{"open", "verify"} {
		l := newLab(t, allLibraries)
		uuid := l.uuids()[0]
		// Ten times this machine's present speed.
		begun := time.Now()
		l.must(request{Do: "scrub", UUID: uuid})
		limit := max(time.Second, 10*time.Since(begun))
		l.configure("fault hang " + place)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		if got := l.died(ctx, request{Do: "scrub", UUID: uuid}); got != syscall.SIGKILL || ctx.Err() == nil {
			t.Errorf("a hang in %s: the child ended with %v, context %v", place, got, ctx.Err())
		}
	}
}

func TestMemoryNeedsItsLibraryAndItsDevice(t *testing.T) {
	whole := newLab(t, allLibraries)
	uuid := whole.uuids()[0]
	for _, c := range []struct {
		name, uuid, config string
		libs               []string
		code               taskcatalog.Code
	}{
		{name: "no HIP", uuid: uuid, libs: []string{"libamd_smi.so"}, code: gpu.CodeLibraryMissing},
		{name: "no AMD SMI", uuid: uuid, libs: []string{"libamdhip64.so"}, code: gpu.CodeLibraryMissing},
		{name: "no driver", uuid: uuid, libs: allLibraries, config: "fault driver_missing", code: gpu.CodeDriverMissing},
		{name: "not on the bus", uuid: uuid, libs: allLibraries, config: "fault.0 vanishes_after 0", code: gpu.CodeDeviceMissing},
		{name: "no such GPU", uuid: "74a1ff00-0000-1000-8000-000000000000", libs: allLibraries, code: gpu.CodeDeviceMissing},
		{name: "no such partition", uuid: uuid + "/1", libs: allLibraries, code: gpu.CodeDeviceMissing},
		{name: "a GPU that is not partitioned", uuid: uuid + "/0", libs: allLibraries, code: gpu.CodeDeviceMissing},
	} {
		l := newLab(t, c.libs, c.config)
		if a := l.ask(request{Do: "scrub", UUID: c.uuid}); a.Code != c.code {
			t.Errorf("%s: %q %q, want %q", c.name, a.Code, a.Message, c.code)
		}
	}
}

// A partition is the unit of a scrub: its memory is separate from its neighbour's.
func TestAPartitionIsScrubbedAlone(t *testing.T) {
	l := newLab(t, allLibraries, "instances 4", "scrub_on_free off")
	g := l.must(request{Do: "survey"}).GPUs[0]
	if g.Partition != "QPX" || len(g.Instances) != 4 || g.Instances[3].UUID != g.UUID+"/3" {
		t.Fatalf("a GPU of four partitions is %+v", g)
	}
	l.must(request{Do: "plant", UUID: g.Instances[1].UUID})
	l.must(request{Do: "plant", UUID: g.Instances[2].UUID})
	s := l.must(request{Do: "scrub", UUID: g.Instances[1].UUID}).Scrub
	if s.Residue == 0 || s.Mismatches != 0 || s.Total != *g.Instances[1].MemoryBytes {
		t.Errorf("partition 1: %+v", s)
	}
	if s = l.must(request{Do: "scrub", UUID: g.Instances[1].UUID}).Scrub; s.Residue != 0 {
		t.Errorf("partition 1 again: %+v", s)
	}
	if s = l.must(request{Do: "scrub", UUID: g.Instances[2].UUID}).Scrub; s.Residue == 0 {
		t.Errorf("partition 2 was cleared with partition 1: %+v", s)
	}
}
