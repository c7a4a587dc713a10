package validate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// newCloud is a whole machine set up by cloud-init, with its baseline. cloud-init is off, as the
// agent leaves it.
func newCloud(t *testing.T) *whole {
	t.Helper()
	w := newWhole(t)
	for name, text := range map[string]string{
		"etc/cloud/cloud.cfg":                                   "",
		"etc/hostler-bootstrap/bundle":                          "version 1\nlayers site agent hw-sync roce\n",
		"etc/cloud/cloud-init.disabled":                         "",
		"var/lib/cloud/instances/i-1/obj.pkl":                   "\x80\x04userdata\x94.",
		"var/lib/cloud/instances/i-1/boothooks/hostler-lay-out": "#!/bin/sh\n",
		"var/lib/cloud/instances/i-1/scripts/hostler-data":      "#!/bin/true\n",
		"var/lib/cloud/instances/i-1/sem/config_ssh":            "1",
		"var/lib/cloud/seed/nocloud-net/user-data":              "#cloud-config\n",
		"var/lib/hostler-bootstrap/laid-out":                    "0123456789abcdef\n",
		"var/lib/hostler-bootstrap/site":                        "#!/bin/sh\n",
		"var/lib/hostler-bootstrap/layers/hw-sync":              "failed\nit did not arrive\n",
	} {
		hosttest.Put(t, w.dir, name, text)
	}
	hosttest.OK(t, os.MkdirAll(filepath.Join(w.dir, "var/lib/cloud/scripts/per-boot"), 0o755))
	hosttest.OK(t, os.Symlink("/var/lib/cloud/instances/i-1", filepath.Join(w.dir, "var/lib/cloud/instance")))
	w.take(t)
	return w
}

func TestWhatCloudInitWouldCarryOutIsFoundWhenItChanged(t *testing.T) {
	const i1 = "var/lib/cloud/instances/i-1/"
	for name, plant := range map[string]func(t *testing.T, w *whole){
		i1 + "obj.pkl":                              spoil(i1+"obj.pkl", "\x80\x04userdatb\x94."),
		i1 + "boothooks/hostler-lay-out":            spoil(i1+"boothooks/hostler-lay-out", "#!/bin/sh\nid\n"),
		i1 + "scripts/hostler-data":                 spoil(i1+"scripts/hostler-data", "#!/bin/sh\n"),
		i1 + "handlers/part.py":                     spoil(i1+"handlers/part.py", "x"),
		i1 + "sem/config_ssh":                       lose(i1 + "sem/config_ssh"),
		"var/lib/cloud/handlers/part.py":            spoil("var/lib/cloud/handlers/part.py", "x"),
		"var/lib/cloud/scripts/per-boot/implant":    spoil("var/lib/cloud/scripts/per-boot/implant", "#!/bin/sh\n"),
		"var/lib/cloud/seed/nocloud-net/user-data":  spoil("var/lib/cloud/seed/nocloud-net/user-data", "#!/bin/sh\n"),
		"var/lib/cloud/instances/i-2/obj.pkl":       spoil("var/lib/cloud/instances/i-2/obj.pkl", "\x80\x04\x94."),
		"var/lib/hostler-bootstrap/laid-out":        lose("var/lib/hostler-bootstrap/laid-out"),
		"var/lib/hostler-bootstrap/site":            spoil("var/lib/hostler-bootstrap/site", "#!/bin/sh\nid\n"),
		"var/lib/hostler-bootstrap/disks/S1":        spoil("var/lib/hostler-bootstrap/disks/S1", "uuid\n"),
		"var/lib/cloud/instances/i-1/vendor-data.x": spoil(i1+"vendor-data.x", "x"),
		"var/lib/hostler-bootstrap/agent.deb":       spoil("var/lib/hostler-bootstrap/agent.deb", "x"),
		"var/lib/hostler-bootstrap/layers/x":        spoil("var/lib/hostler-bootstrap/layers/x", "x"),
		"var/lib/hostler-bootstrap/layers/roce/x":   spoil("var/lib/hostler-bootstrap/layers/roce/x", "x"),
		"var/lib/hostler-bootstrap/layers/roce.new": link("../../../../etc/shadow", "var/lib/hostler-bootstrap/layers/roce.new"),
		"var/lib/hostler-bootstrap/layers": func(t *testing.T, w *whole) {
			hosttest.OK(t, os.RemoveAll(filepath.Join(w.dir, "var/lib/hostler-bootstrap/layers")))
			link("/home/ubuntu", "var/lib/hostler-bootstrap/layers")(t, w)
		},
		"var/lib/cloud/instance": func(t *testing.T, w *whole) {
			lose("var/lib/cloud/instance")(t, w)
			hosttest.OK(t, os.Symlink("/home/ubuntu/instance", filepath.Join(w.dir, "var/lib/cloud/instance")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCloud(t)
			if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictClean {
				t.Fatalf("untouched it is %s: %+v", got.Verdict, report)
			}
			plant(t, w)
			got, report := w.judge(t)
			if got.Verdict != taskcatalog.VerdictNotClean || !slices.Equal(told(report), []string{"cloud_init /" + name}) {
				t.Fatalf("the verdict is %s with findings %q", got.Verdict, told(report))
			}
			if next := report.Findings[0].NextAction; next != taskcatalog.ActionReimage {
				t.Errorf("it is mended by %q", next)
			}
		})
	}
}

func link(to, name string) func(*testing.T, *whole) {
	return func(t *testing.T, w *whole) { hosttest.OK(t, os.Symlink(to, filepath.Join(w.dir, name))) }
}

func TestHowALayerEndedIsNoFinding(t *testing.T) {
	w := newCloud(t)
	hosttest.Put(t, w.dir, "var/lib/hostler-bootstrap/layers/hw-sync", "done\n\n")
	hosttest.Put(t, w.dir, "var/lib/hostler-bootstrap/layers/roce", "failed\nno address\n")
	hosttest.Put(t, w.dir, "var/lib/hostler-bootstrap/layers/roce.said", "no address\n")
	hosttest.Put(t, w.dir, "var/lib/hostler-bootstrap/layers/roce.new", "")
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictClean {
		t.Errorf("the verdict is %s: %+v", got.Verdict, report)
	}
}

// A machine on which cloud-init runs at each boot cannot be compared, so the look counts as not
// made.
func TestWhereCloudInitRunsAtEachBootTheLookIsNotMade(t *testing.T) {
	w := newCloud(t)
	lose("etc/cloud/cloud-init.disabled")(t, w)
	w.take(t)
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictInconclusive || !slices.Equal(notMade(t, report), []string{"cloud_init"}) {
		t.Errorf("the verdict is %s, not made are %q", got.Verdict, notMade(t, report))
	}
	// Off since then: the baseline still has nothing to compare with.
	hosttest.Put(t, w.dir, "etc/cloud/cloud-init.disabled", "")
	if _, report := w.judge(t); !slices.Equal(notMade(t, report), []string{"cloud_init"}) {
		t.Errorf("not made are %q", notMade(t, report))
	}
	w.take(t)
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictClean {
		t.Errorf("the verdict is %s: %+v", got.Verdict, report)
	}
}

func TestCloudInitThatWasTurnedOnAgainIsFound(t *testing.T) {
	for name, on := range map[string]func(t *testing.T, w *whole){
		"file":         lose("etc/cloud/cloud-init.disabled"),
		"command line": spoil("proc/cmdline", "root=/dev/vda1 cloud-init=enabled\n"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newCloud(t)
			on(t, w)
			hosttest.Put(t, w.dir, "var/lib/cloud/scripts/per-boot/implant", "x")
			got, report := w.judge(t)
			for _, want := range []string{"cloud_init cloud-init", "cloud_init /var/lib/cloud/scripts/per-boot/implant"} {
				if !slices.Contains(told(report), want) {
					t.Errorf("the verdict is %s with findings %q, without %q", got.Verdict, told(report), want)
				}
			}
		})
	}
}

// A baseline taken before the end of the first boot would hold files that the first boot still
// changes.
func TestABaselineWaitsForTheFirstBoot(t *testing.T) {
	w := newCloud(t)
	looks := 0
	w.h.FirstBoot = func() bool {
		if looks++; looks == 2 {
			hosttest.Put(t, w.dir, "var/lib/hostler-bootstrap/done", "")
			return true
		}
		return false
	}
	w.take(t)
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictClean {
		t.Errorf("the verdict is %s: %+v", got.Verdict, report)
	}
}

// The node could never match a baseline taken during the first boot: no baseline is stored then,
// and the broker asks again.
func TestThereIsNoBaselineOfAFirstBootThatDoesNotEnd(t *testing.T) {
	for name, on := range map[string]func(w *whole){
		"cloud-init": func(w *whole) { hosttest.Put(t, w.dir, "run/cloud-init/enabled", "") },
		"a layer":    func(w *whole) { w.h.FirstBoot = func() bool { return false } },
	} {
		t.Run(name, func(t *testing.T) {
			w := newCloud(t)
			on(w)
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				res, _, err := runValidation(t.Context(), &host.Run{Params: &taskcatalog.ValidateCleanParams{TakeBaseline: true}, Host: w.h}, w.kernel)
				if err == nil || !strings.Contains(err.Error(), "the first boot has not ended") {
					t.Errorf("%+v, %v", res, err)
				}
				// A layer may take a quarter of an hour, the task half an hour.
				if waited := time.Since(begun); waited <= 15*time.Minute || waited >= 25*time.Minute {
					t.Errorf("it waited for %s", waited)
				}
			})
		})
	}
}
