package amd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// The structures of 24 are smaller than those of later versions.
func TestSurveyReadsTheStructuresOfEachVersion(t *testing.T) {
	for _, version := range []string{"24.7.1", "25.3.0", "26.2.1", "27.2.0"} {
		l := newLab(t, allLibraries, "amdsmi "+version, "name AMD Instinct MI325X", "driver 6.14.14")
		a := l.must(request{Do: "survey"})
		if len(a.GPUs) != 2 {
			t.Fatalf("%s: %d GPUs: %+v", version, len(a.GPUs), a.Libraries)
		}
		for i, g := range a.GPUs {
			if g.Vendor != "amd" || g.Index != i || g.Name != "AMD Instinct MI325X" || g.Architecture != "gfx942" || g.Partition != "SPX" ||
				g.Serial != fmt.Sprintf("6923%04d", i) || g.PCIAddress != fmt.Sprintf("0000:%02x:00.0", 3+3*i) || len(g.UUID) != 36 ||
				g.MemoryBytes == nil || *g.MemoryBytes != 16*mib || g.ReservedBytes != nil || g.Instances != nil {
				t.Errorf("%s: GPU %d is %+v", version, i, g)
			}
		}
		if a.GPUs[0].UUID == a.GPUs[1].UUID {
			t.Errorf("%s: both GPUs are %s", version, a.GPUs[0].UUID)
		}
		if smi := a.Libraries[0]; smi != (taskcatalog.LibraryFacts{Name: "libamd_smi.so", Version: version}) {
			t.Errorf("%s: the library is %+v", version, smi)
		}
		if hip := a.Libraries[1]; hip != (taskcatalog.LibraryFacts{Name: "libamdhip64.so"}) {
			t.Errorf("%s: HIP is %+v", version, hip)
		}
	}
}

func TestAHostWithoutROCmIsAFact(t *testing.T) {
	for _, c := range []struct {
		name     string
		libs     []string
		config   string
		smi, hip taskcatalog.Code
	}{
		{name: "nothing installed", smi: gpu.CodeLibraryMissing, hip: gpu.CodeLibraryMissing},
		{name: "no HIP", libs: allLibraries[:1], hip: gpu.CodeLibraryMissing},
		{name: "no driver", libs: allLibraries, config: "fault driver_missing", smi: gpu.CodeDriverMissing},
		{name: "too old", libs: allLibraries, config: "amdsmi 24.6.3", smi: gpu.CodeLibraryMismatched},
		{name: "older still", libs: allLibraries, config: "amdsmi 23.4.0", smi: gpu.CodeLibraryMismatched},
		{name: "not known yet", libs: allLibraries, config: "amdsmi 28.0.0", smi: gpu.CodeLibraryMismatched},
		{name: "laid out otherwise", libs: allLibraries, config: "fault bad_layout", smi: gpu.CodeLibraryMismatched},
	} {
		l := newLab(t, c.libs, c.config)
		a := l.must(request{Do: "survey"})
		if a.Libraries[0].Problem != c.smi || a.Libraries[1].Problem != c.hip || (c.smi != "") != (a.Libraries[0].Detail != "") {
			t.Errorf("%s: %+v", c.name, a.Libraries)
		}
		if c.smi != "" && a.GPUs != nil {
			t.Errorf("%s: and yet there are GPUs: %+v", c.name, a.GPUs)
		}
	}
}

func TestALostGPUDoesNotHideTheOthers(t *testing.T) {
	l := newLab(t, allLibraries)
	uuids := l.uuids()
	l.configure("fault.0 lost_after 1")
	if a := l.ask(request{Do: "plant", UUID: uuids[0]}); a.Code != gpu.CodeDeviceLost {
		t.Fatalf("the GPU did not get lost: %+v", a)
	}
	a := l.must(request{Do: "survey"})
	if len(a.GPUs) != 1 || a.GPUs[0].UUID != uuids[1] || a.Libraries[0].Problem != gpu.CodeDeviceLost {
		t.Errorf("the survey says %+v %+v", a.GPUs, a.Libraries)
	}
	if a := l.ask(request{Do: "state", UUID: uuids[0]}); a.Code != gpu.CodeDeviceLost {
		t.Errorf("the state of the lost GPU: %q %q", a.Code, a.Message)
	}
	l.must(request{Do: "state", UUID: uuids[1]})
}

// Chips without a serial number share a uuid: each is scrubbed, and none twice.
func TestGPUsOfOneUUIDAreToldApart(t *testing.T) {
	l := newLab(t, allLibraries, "fault no_serial", "scrub_on_free off", "devices 3")
	uuids := l.uuids()
	for _, uuid := range uuids {
		l.must(request{Do: "plant", UUID: uuid})
	}
	for _, uuid := range uuids {
		if s := l.must(request{Do: "scrub", UUID: uuid}).Scrub; s.Residue == 0 {
			t.Errorf("%s was scrubbed in place of another", uuid)
		}
	}
	if a := l.ask(request{Do: "state", UUID: uuids[0][:36]}); a.Code != gpu.CodeDeviceMissing {
		t.Errorf("a uuid that three have names one: %q", a.Code)
	}
}

// A truncated list would look like an answer; a list of four billion entries is refused.
func TestCountsNoMachineHasAreNotBelieved(t *testing.T) {
	for what, r := range map[string]request{
		"gpus": {Do: "state"}, "partitions": {Do: "state"}, "processes": {Do: "holders"},
	} {
		l := newLab(t, allLibraries)
		r.UUID = l.uuids()[0]
		l.configure("fault absurd " + what)
		if a := l.ask(r); a.Code != gpu.CodeDriverFailed {
			t.Errorf("%s: %q %q", what, a.Code, a.Message)
		}
	}
}

// The library could not read the driver's name: the serial number confirms the layout.
func TestALayoutIsCheckedWithoutTheDriversName(t *testing.T) {
	for _, version := range []string{"24.7.1", "26.2.1"} {
		l := newLab(t, allLibraries, "amdsmi "+version, "driver_name")
		if a := l.must(request{Do: "survey"}); len(a.GPUs) != 2 {
			t.Errorf("%s: %+v", version, a.Libraries)
		}
	}
}

// A file with the library's name need not be the library.
func TestALibraryThatCannotBeUsedSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		build func(file string) error
		code  taskcatalog.Code
	}{
		"no library at all": {func(file string) error { return os.WriteFile(file, []byte("not a library"), 0o600) }, gpu.CodeLibraryMismatched},
		"no functions": {func(file string) error {
			source := file + ".c"
			if err := os.WriteFile(source, []byte("int nothing;"), 0o600); err != nil {
				return err
			}
			return exec.Command("gcc", "-shared", "-o", file, source).Run()
		}, gpu.CodeSymbolMissing},
		"a library that it needs is missing": {func(file string) error {
			source, needed := file+".c", filepath.Join(filepath.Dir(file), "libdrm_fake.so")
			if err := os.WriteFile(source, []byte("int something;"), 0o600); err != nil {
				return err
			}
			if err := exec.Command("gcc", "-shared", "-o", needed, source).Run(); err != nil {
				return err
			}
			if err := exec.Command("gcc", "-shared", "-Wl,--no-as-needed", "-o", file, source, needed).Run(); err != nil {
				return err
			}
			return os.Remove(needed)
		}, gpu.CodeLibraryMismatched},
	} {
		l := newLab(t, nil)
		if err := c.build(filepath.Join(l.lib, "libamd_smi.so")); err != nil {
			t.Fatal(err)
		}
		if smi := l.must(request{Do: "survey"}).Libraries[0]; smi.Problem != c.code || smi.Detail == "" {
			t.Errorf("%s: %+v", name, smi)
		}
	}
}
